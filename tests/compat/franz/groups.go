package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// member is a client in a group that polls in the background, since a rebalance needs all members at once.
type member struct {
	client *kgo.Client
	asked  chan func()
	left   chan struct{}
	read   []string
	owned  map[string]int // topic -> partitions
	calls  int
}

func join(ctx context.Context, group string, options ...kgo.Opt) *member {
	m := &member{asked: make(chan func()), left: make(chan struct{}), owned: map[string]int{}}
	m.client = newClient(append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(300 * time.Millisecond), kgo.SessionTimeout(6 * time.Second), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) { m.changed(given, 1) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) { m.changed(taken, -1) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { m.changed(lost, -1) }),
	}, options...)...)
	go m.poll(ctx)
	return m
}

// changed runs while polling is blocked, or in between: see BlockRebalanceOnPoll.
func (m *member) changed(places map[string][]int32, by int) {
	for topic, partitions := range places {
		m.owned[topic] += by * len(partitions)
		m.calls++
	}
}

func (m *member) poll(ctx context.Context) {
	defer close(m.left)
	for {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		fetches := m.client.PollFetches(short)
		cancel()
		fetches.EachRecord(func(record *kgo.Record) { m.read = append(m.read, string(record.Value)) })
		select {
		case ask := <-m.asked:
			if ask == nil {
				m.client.AllowRebalance()
				return
			}
			ask()
		default:
		}
		m.client.AllowRebalance()
	}
}

// do runs something between two polls, when nothing of the member changes.
func (m *member) do(ask func()) {
	done := make(chan struct{})
	m.asked <- func() { ask(); close(done) }
	<-done
}

func (m *member) has(topic string, partitions int) (so bool) {
	m.do(func() { so = m.owned[topic] == partitions })
	return so
}

func (m *member) count() (count int) {
	m.do(func() { count = len(m.read) })
	return count
}

func (m *member) commit(ctx context.Context) {
	m.do(func() {
		err := m.client.CommitUncommittedOffsets(ctx)
		check(err == nil, "commit: %v", err)
	})
}

func (m *member) leave() {
	m.asked <- nil
	<-m.left
	m.client.Close()
}

func until(ctx context.Context, condition func() bool, what string) {
	for !condition() {
		check(ctx.Err() == nil, "in time: %s", what)
	}
}

func shareAndResume(ctx context.Context, admin *kadm.Client, name string, options ...kgo.Opt) {
	topic := create(ctx, admin, name, nil)
	group := topic + "-group"
	options = append(options, kgo.ConsumeTopics(topic))
	for partition := range int32(partitions) {
		produce(ctx, topic, "first", partition)
	}
	one := join(ctx, group, options...)
	until(ctx, func() bool { return one.count() == partitions*records }, name+": one reads all")
	one.commit(ctx)
	two := join(ctx, group, options...)
	until(ctx, func() bool { return one.has(topic, 1) && two.has(topic, 2) || one.has(topic, 2) && two.has(topic, 1) }, name+": both have some")
	for partition := range int32(partitions) {
		produce(ctx, topic, "second", partition)
	}
	until(ctx, func() bool { return one.count()+two.count() == 2*partitions*records }, name+": both read")
	check(two.count() == records || two.count() == 2*records, "%s: two read %d", name, two.count())
	one.commit(ctx)
	two.commit(ctx)
	one.leave()
	two.leave()
	produce(ctx, topic, "third", 0)
	heir := join(ctx, group, options...)
	until(ctx, func() bool { return heir.count() == records }, name+": the heir reads on")
	heir.leave()
	check(heir.read[0] == "third-value-0", "%s: %v", name, heir.read)
	fmt.Println(name)
}

func staticMember(ctx context.Context, admin *kadm.Client, name string, options ...kgo.Opt) {
	topic := create(ctx, admin, name, nil)
	options = append(options, kgo.ConsumeTopics(topic))
	named := func(instance string) *member {
		return join(ctx, topic+"-group", append(options, kgo.InstanceID(instance))...)
	}
	one, two := named("a"), named("b")
	until(ctx, func() bool { return one.has(topic, 1) && two.has(topic, 2) || one.has(topic, 2) && two.has(topic, 1) }, name+": both have some")
	had, calls := one.owned[topic], two.calls
	one.leave() // a static member does not say that it goes
	again := named("a")
	until(ctx, func() bool { return again.has(topic, had) }, name+": it has again what it had")
	again.leave()
	two.leave()
	check(two.calls == calls+1, "%s: the other noticed, %d calls, then %d", name, calls, two.calls) // one more as it went itself
	fmt.Println(name)
}

func pattern(ctx context.Context, admin *kadm.Client, name string, options ...kgo.Opt) {
	first := create(ctx, admin, name+"-1", nil)
	create(ctx, admin, name+"-no", nil)
	m := join(ctx, prefix+"-"+name, append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+prefix+"-"+name+"-[0-9]+$"))...)
	until(ctx, func() bool { return m.has(first, partitions) }, name)
	m.leave()
	check(len(m.owned) == 1, "%s: %v", name, m.owned)
	fmt.Println(name)
}

func groupAdministration(ctx context.Context, admin *kadm.Client, name, kind string, options ...kgo.Opt) {
	topic := create(ctx, admin, name, nil)
	group := topic + "-group"
	produce(ctx, topic, "a", 0)
	m := join(ctx, group, append(options, kgo.ConsumeTopics(topic), kgo.ClientID("me"))...)
	until(ctx, func() bool { return m.count() == records }, name)
	m.commit(ctx)
	listed := must(admin.ListGroupsByType(ctx, []string{kind}, "Stable"))
	check(listed[group].State == "Stable", "%s: listed %v", name, listed)
	_, wrong := must(admin.ListGroupsByType(ctx, []string{kind}, "Empty"))[group]
	check(!wrong, "%s: listed as empty", name)
	if kind == "classic" { // kadm works out the lag of these only
		lag := must(admin.Lag(ctx, group))[group]
		check(lag.Error() == nil && lag.Lag.Total() == 0 && lag.State == "Stable", "%s: lag %+v", name, lag)
	} else {
		described := must(admin.DescribeConsumerGroups(ctx, group))[group]
		check(described.Err == nil && described.State == "Stable" && described.AssignorName == "uniform", "%s: %+v", name, described)
		check(len(described.Members) == 1 && described.Members[0].ClientID == "me" && described.Members[0].MemberType == 1 &&
			len(described.Members[0].Assignment[topic]) == partitions, "%s: %+v", name, described.Members)
	}
	deleted := must(admin.DeleteGroups(ctx, group))[group]
	check(errors.Is(deleted.Err, kerr.NonEmptyGroup), "%s: delete: %v", name, deleted.Err)
	m.leave()

	check(admin.CommitAllOffsets(ctx, group, kadm.Offsets{topic: {
		0: {Topic: topic, Partition: 0, At: 5, LeaderEpoch: -1, Metadata: "by hand"}, 2: {Topic: topic, Partition: 2, At: 0, LeaderEpoch: -1},
	}}) == nil, "%s: commit", name)
	offsets := must(admin.FetchOffsets(ctx, group))
	check(offsets[topic][0].At == 5 && offsets[topic][0].Metadata == "by hand", "%s: offsets %v", name, offsets)
	check(kind != "classic" || must(admin.Lag(ctx, group))[group].Lag.Total() == records-5, "%s: lag", name)
	gone := must(admin.DeleteOffsets(ctx, group, kadm.TopicsSet{topic: {2: {}}}))
	check(gone.Error() == nil, "%s: delete offsets: %v", name, gone)
	_, kept := must(admin.FetchOffsets(ctx, group))[topic][2]
	check(!kept, "%s: the offset of partition 2 is still there", name)
	deleted = must(admin.DeleteGroup(ctx, group))
	check(deleted.Err == nil, "%s: delete: %v", name, deleted.Err)
	check(!slices.Contains(must(admin.ListGroups(ctx)).Groups(), group), "%s: still listed", name)
	fmt.Println(name)
}

func groups(ctx context.Context, admin *kadm.Client) {
	for _, balancer := range []kgo.GroupBalancer{kgo.RangeBalancer(), kgo.RoundRobinBalancer(), kgo.StickyBalancer(), kgo.CooperativeStickyBalancer()} {
		shareAndResume(ctx, admin, "share-"+balancer.ProtocolName(), kgo.Balancers(balancer))
	}
	server := []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}
	shareAndResume(ctx, admin, "share-uniform", server...)
	shareAndResume(ctx, admin, "share-server-range", kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	// Not with the server's balancer: v1.22 says goodbye without its instance id there, which Kafka refuses too.
	staticMember(ctx, admin, "static")
	pattern(ctx, admin, "pattern-classic")
	pattern(ctx, admin, "pattern-consumer", server...)
	groupAdministration(ctx, admin, "admin-classic", "classic")
	groupAdministration(ctx, admin, "admin-consumer", "consumer", server...)
}
