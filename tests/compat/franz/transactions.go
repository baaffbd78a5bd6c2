package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// committed reads a partition to its end, as readers of committed records see it.
func committed(ctx context.Context, admin *kadm.Client, topic string) []string {
	ends := must(admin.ListCommittedOffsets(ctx, topic))
	end, _ := ends.Lookup(topic, 0)
	client := newClient(
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}),
	)
	defer client.Close()
	found := []string{}
	for position := int64(0); position < end.Offset; {
		fetches := client.PollFetches(ctx)
		check(len(fetches.Errors()) == 0, "reading %s: %v", topic, fetches.Errors())
		fetches.EachRecord(func(record *kgo.Record) {
			position = record.Offset + 1
			if !record.Attrs.IsControl() {
				found = append(found, string(record.Value))
			}
		})
	}
	return found
}

func write(ctx context.Context, client *kgo.Client, topic, value string, end kgo.TransactionEndTry) {
	must(0, client.BeginTransaction())
	results := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: 0, Value: []byte(value)})
	must(0, results.FirstErr())
	must(0, client.EndTransaction(ctx, end))
}

func endings(ctx context.Context, admin *kadm.Client) {
	topic := create(ctx, admin, "endings", nil)
	client := newClient(kgo.TransactionalID(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	expected := []string{}
	for i := 0; i < 9; i++ {
		value := fmt.Sprint("v", i)
		write(ctx, client, topic, value, i%3 != 0)
		if i%3 != 0 {
			expected = append(expected, value)
		}
	}
	found := committed(ctx, admin, topic)
	check(fmt.Sprint(found) == fmt.Sprint(expected), "found %v, not %v", found, expected)
	fmt.Println("endings")
}

func fencing(ctx context.Context, admin *kadm.Client) {
	topic := create(ctx, admin, "fencing", nil)
	options := []kgo.Opt{kgo.TransactionalID(topic), kgo.RecordPartitioner(kgo.ManualPartitioner())}
	first := newClient(options...)
	defer first.Close()
	must(0, first.BeginTransaction())
	must(0, first.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: 0, Value: []byte("lost")}).FirstErr())
	second := newClient(options...)
	defer second.Close()
	write(ctx, second, topic, "kept", kgo.TryCommit)
	check(first.EndTransaction(ctx, kgo.TryCommit) != nil, "a fenced producer committed")
	found := committed(ctx, admin, topic)
	check(fmt.Sprint(found) == "[kept]", "found %v", found)
	fmt.Println("fencing")
}

func describing(ctx context.Context, admin *kadm.Client) {
	topic := create(ctx, admin, "describing", nil)
	client := newClient(kgo.TransactionalID(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	must(0, client.BeginTransaction())
	must(0, client.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: 0, Value: []byte("open")}).FirstErr())
	described := must(must(admin.DescribeTransactions(ctx, topic)).On(topic, nil))
	check(described.State == "Ongoing", "it is %s", described.State)
	check(described.Topics.Lookup(topic, 0), "its partitions are %v", described.Topics)
	listed := must(admin.ListTransactions(ctx, nil, []string{"Ongoing"}))
	_, is := listed[topic]
	check(is, "%s is not listed", topic)
	must(0, client.EndTransaction(ctx, kgo.TryAbort))
	found := committed(ctx, admin, topic)
	check(len(found) == 0, "found %v", found)
	fmt.Println("describing")
}
