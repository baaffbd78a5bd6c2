// A scenario for franz-go against the broker named by the first argument; topics start with the second. With a third, "groups" or
// "transactions", it is the one in groups.go or transactions.go. With "oracle" alone it is a driver of the load of tests/oracle.
// It prints one line per step that held and ends with 1 at the first that did not.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions       = 3
	records          = 20
	firstTimestampMs = 1_600_000_000_000
	timeout          = 60 * time.Second
)

var seed, prefix string

func check(held bool, format string, args ...any) {
	if !held {
		fmt.Fprintf(os.Stderr, "not so: "+format+"\n", args...)
		os.Exit(1)
	}
}

func must[T any](value T, err error) T {
	check(err == nil, "%v", err)
	return value
}

func newClient(options ...kgo.Opt) *kgo.Client {
	return must(kgo.NewClient(append(options, kgo.SeedBrokers(seed), kgo.FetchMaxWait(100*time.Millisecond))...))
}

func record(topic, tag string, partition int32, i int) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Partition: partition,
		Key: []byte(fmt.Sprintf("%s-key-%d", tag, i)), Value: []byte(fmt.Sprintf("%s-value-%d", tag, i)),
		Headers:   []kgo.RecordHeader{{Key: "n", Value: []byte(fmt.Sprint(i))}, {Key: "null", Value: nil}},
		Timestamp: time.UnixMilli(firstTimestampMs + int64(i)*1000),
	}
}

func produce(ctx context.Context, topic, tag string, partition int32, options ...kgo.Opt) {
	client := newClient(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	defer client.Close()
	batch := make([]*kgo.Record, records)
	for i := range batch {
		batch[i] = record(topic, tag, partition, i)
	}
	check(client.ProduceSync(ctx, batch...).FirstErr() == nil, "produce %s to %s", tag, topic)
	check(client.Flush(ctx) == nil, "flush")
}

func consume(ctx context.Context, topic string, partition int32, from kgo.Offset, count int) []*kgo.Record {
	client := newClient(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: from}}))
	defer client.Close()
	var found []*kgo.Record
	for len(found) < count {
		fetches := client.PollFetches(ctx)
		check(fetches.Err() == nil, "fetch %s: %v", topic, fetches.Err())
		found = append(found, fetches.Records()...)
	}
	return found
}

func same(topic, tag string, partition int32, found []*kgo.Record, firstOffset int) {
	for i, got := range found {
		want := record(topic, tag, partition, firstOffset+i)
		check(got.Offset == int64(firstOffset+i), "offset %d at %d", got.Offset, i)
		check(bytes.Equal(got.Key, want.Key) && bytes.Equal(got.Value, want.Value), "%s record %d: %s", tag, i, got.Value)
		check(got.Timestamp.Equal(want.Timestamp), "%s timestamp of %d: %v", tag, i, got.Timestamp)
		check(len(got.Headers) == 2 && string(got.Headers[0].Value) == fmt.Sprint(firstOffset+i) && got.Headers[1].Value == nil,
			"%s headers of %d: %v", tag, i, got.Headers)
	}
}

func create(ctx context.Context, admin *kadm.Client, name string, configs map[string]*string) string {
	topic := prefix + "-" + name
	must(admin.CreateTopic(ctx, partitions, 1, configs, topic))
	for { // Kafka answers before metadata shows the topic, and shows it before it leads it.
		ends := must(admin.ListEndOffsets(ctx, topic))
		if len(ends[topic]) == partitions && ends.Error() == nil {
			return topic
		}
	}
}

func codecs(ctx context.Context, admin *kadm.Client) {
	all := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for name, codec := range all {
		topic := create(ctx, admin, "codec-"+name, nil)
		produce(ctx, topic, name, 1, kgo.ProducerBatchCompression(codec))
		same(topic, name, 1, consume(ctx, topic, 1, kgo.NewOffset().AtStart(), records), 0)
		produce(ctx, topic, name, 2, kgo.ProducerBatchCompression(codec), kgo.DisableIdempotentWrite())
		same(topic, name, 2, consume(ctx, topic, 2, kgo.NewOffset().AtStart(), records), 0)
	}
	fmt.Println("codecs")
}

func acks(ctx context.Context, admin *kadm.Client) {
	for name, acks := range map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()} {
		topic := create(ctx, admin, "acks-"+name, nil)
		produce(ctx, topic, name, 0, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite())
		same(topic, name, 0, consume(ctx, topic, 0, kgo.NewOffset().AtStart(), records), 0)
	}
	fmt.Println("acks")
}

func offsets(ctx context.Context, admin *kadm.Client) {
	topic := create(ctx, admin, "offsets", nil)
	produce(ctx, topic, "o", 0)
	same(topic, "o", 0, consume(ctx, topic, 0, kgo.NewOffset().At(15), 5), 15)
	same(topic, "o", 0, consume(ctx, topic, 0, kgo.NewOffset().Relative(-3).AtEnd(), 3), 17)
	same(topic, "o", 0, consume(ctx, topic, 0, kgo.NewOffset().AfterMilli(firstTimestampMs+4500), 15), 5)
	start, end := must(admin.ListStartOffsets(ctx, topic)), must(admin.ListEndOffsets(ctx, topic))
	check(start[topic][0].Offset == 0 && end[topic][0].Offset == records && end[topic][1].Offset == 0, "start %v end %v", start, end)
	after := must(admin.ListOffsetsAfterMilli(ctx, firstTimestampMs+6001, topic))
	check(after[topic][0].Offset == 7, "after: %v", after)
	fmt.Println("offsets")
}

func emptyPoll(ctx context.Context, admin *kadm.Client) {
	topic := create(ctx, admin, "empty", nil)
	client := newClient(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	defer client.Close()
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	fetches := client.PollFetches(short)
	check(fetches.NumRecords() == 0 && errors.Is(fetches.Err0(), context.DeadlineExceeded), "empty poll: %v", fetches.Err())
	produce(ctx, topic, "later", 0)
	var found []*kgo.Record
	for len(found) < records {
		found = append(found, client.PollFetches(ctx).Records()...)
	}
	same(topic, "later", 0, found, 0)
	fmt.Println("empty poll")
}

func refusals(ctx context.Context, admin *kadm.Client) {
	small := "1000"
	topic := create(ctx, admin, "small", map[string]*string{"max.message.bytes": &small})
	client := newClient(kgo.UnknownTopicRetries(1))
	defer client.Close()
	err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: incompressible(5000)}).FirstErr()
	check(errors.Is(err, kerr.MessageTooLarge), "too large: %v", err)
	err = client.ProduceSync(ctx, &kgo.Record{Topic: prefix + "-absent", Value: []byte("x")}).FirstErr()
	check(errors.Is(err, kerr.UnknownTopicOrPartition), "unknown topic: %v", err)
	_, err = admin.CreateTopic(ctx, 1, 1, nil, topic)
	check(errors.Is(err, kerr.TopicAlreadyExists), "exists: %v", err)
	_, err = admin.CreateTopic(ctx, 1, 1, map[string]*string{"no.such": &small}, prefix+"-config")
	check(errors.Is(err, kerr.InvalidConfig), "config: %v", err)
	fmt.Println("refusals")
}

func incompressible(size int) []byte {
	value, state := make([]byte, size), uint32(1)
	for i := range value {
		state = state*1664525 + 1013904223
		value[i] = byte(state >> 24)
	}
	return value
}

func administration(ctx context.Context, admin *kadm.Client) {
	brokers := must(admin.ListBrokers(ctx))
	check(len(brokers) == 1 && fmt.Sprintf("%s:%d", brokers[0].Host, brokers[0].Port) == seed, "brokers: %v", brokers)
	topic := create(ctx, admin, "admin", nil)
	produce(ctx, topic, "a", 0)
	value := "5000"
	altered := must(admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, topic))
	check(altered[0].Err == nil, "alter: %v", altered[0].Err)
	for configured(ctx, admin, topic, "retention.ms") != value {
	}
	check(configured(ctx, admin, topic, "cleanup.policy") == "delete", "cleanup.policy")
	must(admin.UpdatePartitions(ctx, 5, topic))
	for len(must(admin.ListTopics(ctx, topic))[topic].Partitions) != 5 {
	}
	deleted := must(admin.DeleteRecords(ctx, kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: 7}}}))
	check(deleted[topic][0].Err == nil && deleted[topic][0].LowWatermark == 7, "delete records: %v", deleted)
	same(topic, "a", 0, consume(ctx, topic, 0, kgo.NewOffset().AtStart(), records-7), 7)
	directories := must(admin.DescribeAllLogDirs(ctx, kadm.TopicsSet{topic: {0: {}}}))
	size := int64(0)
	directories.Each(func(directory kadm.DescribedLogDir) {
		check(directory.Err == nil, "log dir: %v", directory.Err)
		size += directory.Size()
	})
	check(size > 100, "log dirs: %d bytes", size)
	check(must(admin.DeleteTopic(ctx, topic)).Err == nil, "delete topic")
	for must(admin.ListTopics(ctx)).Has(topic) {
	}
	fmt.Println("administration")
}

func configured(ctx context.Context, admin *kadm.Client, topic, name string) string {
	described := must(must(admin.DescribeTopicConfigs(ctx, topic)).On(topic, nil))
	check(described.Err == nil, "describe: %v", described.Err)
	for _, config := range described.Configs {
		if config.Key == name {
			return config.MaybeValue()
		}
	}
	return ""
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "oracle" {
		oracle()
		return
	}
	seed, prefix = os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if len(os.Args) > 4 && os.Args[3] == "logins" {
		logins(ctx, prefix, os.Args[4])
		return
	}
	client := newClient()
	defer client.Close()
	admin := kadm.NewClient(client)
	if len(os.Args) > 3 && os.Args[3] == "groups" {
		groups(ctx, admin)
		return
	}
	steps := []func(context.Context, *kadm.Client){codecs, acks, offsets, emptyPoll, refusals, administration}
	if len(os.Args) > 3 && os.Args[3] == "transactions" {
		steps = []func(context.Context, *kadm.Client){endings, fencing, describing}
	}
	for _, step := range steps {
		step(ctx, admin)
	}
}
