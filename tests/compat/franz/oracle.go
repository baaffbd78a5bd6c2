package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Clients of the load of tests/oracle: what this reads and writes stands in tests/oracle/jobs.py.

type job map[string]string

func (j job) number(key string) int { return must(strconv.Atoi(j[key])) }

type place struct {
	topic     string
	partition int32
}

type outcome struct {
	place
	number int
	offset int64
	why    string
}

var saying sync.Mutex

func say(lines ...string) {
	saying.Lock()
	defer saying.Unlock()
	os.Stdout.WriteString(strings.Join(lines, "\n") + "\n")
}

// oracle runs a client for each job on standard input, until that is closed.
func oracle() {
	input := bufio.NewReader(os.Stdin)
	var jobs []job
	for {
		line, err := input.ReadString('\n')
		if err != nil || strings.TrimSpace(line) == "" {
			break
		}
		one := job{}
		for _, word := range strings.Fields(line) {
			key, value, _ := strings.Cut(word, "=")
			one[key] = value
		}
		jobs = append(jobs, one)
	}
	stopped, closed := make(chan struct{}), make(chan struct{})
	go func() {
		input.ReadString('\n')
		close(stopped)
		io.Copy(io.Discard, input)
		close(closed)
	}()
	var all sync.WaitGroup
	for _, one := range jobs {
		all.Add(1)
		go func() {
			defer all.Done()
			(&loader{job: one, stopped: stopped, next: map[place]int{}}).run(closed)
		}()
	}
	all.Wait()
}

type loader struct {
	job
	stopped chan struct{}
	client  *kgo.Client
	rng     *rand.Rand
	places  []place
	next    map[place]int // the number of the next record
	bursts  int
	sent    int
}

func (l *loader) options() []kgo.Opt {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(l.job["bootstrap"], ",")...), kgo.ClientID("oracle"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[l.job["codec"]]), kgo.RequiredAcks(acks[l.job["acks"]]),
		kgo.ProducerLinger(time.Duration(l.number("linger_ms")) * time.Millisecond), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.MetadataMaxAge(time.Second), kgo.RecordDeliveryTimeout(30 * time.Second), kgo.MaxBufferedRecords(1_000_000),
		kgo.UnknownTopicRetries(-1),
	}
	if l.job["transactional"] != "" {
		options = append(options, kgo.TransactionalID(l.job["transactional"]))
	} else if l.job["idempotent"] != "1" {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
		if l.job["retries"] == "0" {
			options = append(options, kgo.RecordRetries(0))
		}
	}
	if l.job["ca"] != "" {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(must(os.ReadFile(l.job["ca"])))
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: pool, ServerName: "localhost"}))
	}
	switch l.job["mechanism"] {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: l.job["user"], Pass: l.job["password"]}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: l.job["user"], Pass: l.job["password"]}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: l.job["user"], Pass: l.job["password"]}.AsSha512Mechanism()))
	}
	return options
}

func (l *loader) isOver() bool {
	select {
	case <-l.stopped:
		return true
	case <-time.After(time.Duration(l.number("pause_ms")) * time.Millisecond):
		return l.sent >= l.number("limit")
	}
}

func (l *loader) run(closed chan struct{}) {
	l.rng = rand.New(rand.NewSource(int64(l.number("seed"))))
	for _, target := range strings.Split(l.job["targets"], ",") {
		topic, partition, _ := strings.Cut(target, ":")
		l.places = append(l.places, place{topic, int32(must(strconv.Atoi(partition)))})
	}
	l.client = must(kgo.NewClient(l.options()...))
	defer l.client.Close()
	var err error
	for err == nil && !l.isOver() {
		if l.job["transactional"] == "" {
			l.burst()
		} else {
			err = l.transaction()
		}
	}
	why := "done"
	if err != nil {
		why = strings.ReplaceAll(err.Error(), "\n", " ")
	}
	say(l.job["client"] + " over " + why)
	<-closed
}

func (l *loader) transaction() error {
	name, ctx := l.job["client"], context.Background()
	if err := l.client.BeginTransaction(); err != nil {
		return err
	}
	say(name + " begin")
	isWhole := true
	for range 1 + l.rng.Intn(4) {
		isWhole = l.burst() && isWhole
	}
	isCommitted := isWhole && l.rng.Float64() >= 0.3
	if err := l.client.EndTransaction(ctx, kgo.TransactionEndTry(isCommitted)); err != nil {
		say(name + " unsure")
		return err
	}
	if isCommitted {
		say(name + " committed")
	} else {
		say(name + " aborted")
	}
	return nil
}

// burst sends the next records, and tells whether all were acknowledged.
func (l *loader) burst() bool {
	bursts := strings.Split(l.job["bursts"], ",")
	records, padded, _ := strings.Cut(bursts[l.bursts%len(bursts)], "x")
	count, size := must(strconv.Atoi(records)), must(strconv.Atoi(padded))
	l.bursts++
	l.sent += count + count*size/1024
	var lock sync.Mutex
	var outcomes []outcome
	name := l.job["client"]
	chosen := l.rng.Perm(len(l.places))[:1+l.rng.Intn(min(len(l.places), 3, count))]
	for at, index := range chosen {
		share, where := (count+len(chosen)-1-at)/len(chosen), l.places[index]
		first := l.next[where]
		l.next[where] = first + share
		say(fmt.Sprintf("%s send %s %d %d %d %d", name, where.topic, where.partition, first, share, time.Now().UnixMilli()))
		padding := l.padding(size)
		checksum := crc32.ChecksumIEEE(padding)
		for number := first; number < first+share; number++ {
			head := fmt.Sprintf("%s %d %s %d %08x ", where.topic, where.partition, name, number, checksum)
			record := &kgo.Record{Topic: where.topic, Partition: where.partition, Value: append([]byte(head), padding...)}
			l.client.Produce(context.Background(), record, func(sent *kgo.Record, err error) {
				told := outcome{where, number, sent.Offset, ""}
				if err != nil {
					told.offset, told.why = -1, strings.ReplaceAll(err.Error(), "\n", " ")
				}
				lock.Lock()
				defer lock.Unlock()
				outcomes = append(outcomes, told)
			})
		}
	}
	err := l.client.Flush(context.Background())
	check(err == nil, "flush: %v", err)
	return l.tell(outcomes)
}

func (l *loader) padding(size int) []byte {
	if l.job["random"] != "1" {
		return bytes.Repeat([]byte("x"), size)
	}
	made := make([]byte, size)
	l.rng.Read(made)
	return made
}

// tell says what came of a burst; whether all was acknowledged.
func (l *loader) tell(outcomes []outcome) bool {
	sort.Slice(outcomes, func(a, b int) bool {
		x, y := outcomes[a], outcomes[b]
		if x.topic != y.topic {
			return x.topic < y.topic
		}
		return x.partition < y.partition || x.partition == y.partition && x.number < y.number
	})
	isWhole := true
	var lines []string
	for at := 0; at < len(outcomes); {
		one, count := outcomes[at], 1
		isAcknowledged := l.job["acks"] != "0"
		for at+count < len(outcomes) {
			next := outcomes[at+count]
			offset := one.offset
			if offset >= 0 && one.why == "" && isAcknowledged {
				offset += int64(count)
			}
			if next.place != one.place || next.why != one.why || next.number != one.number+count || isAcknowledged && next.offset != offset {
				break
			}
			count++
		}
		at += count
		about := fmt.Sprintf("%s %d %d %d", one.topic, one.partition, one.number, count)
		if one.why != "" {
			isWhole = false
			lines = append(lines, fmt.Sprintf("%s fail %s %s", l.job["client"], about, one.why))
			continue
		}
		if !isAcknowledged {
			one.offset = -1
		}
		lines = append(lines, fmt.Sprintf("%s ack %s %d", l.job["client"], about, one.offset))
	}
	say(append(lines, fmt.Sprintf("%s end %d", l.job["client"], time.Now().UnixMilli()))...)
	return isWhole
}
