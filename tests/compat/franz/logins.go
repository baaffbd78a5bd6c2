package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// login is one way to connect, as the test writes it.
type login struct {
	Name, Bootstrap, Mechanism, User, Password, Token, Authority, Certificate, Key string
}

func (l login) options() []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(l.Bootstrap)}
	if l.Authority != "" {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(must(os.ReadFile(l.Authority)))
		config := &tls.Config{RootCAs: pool, ServerName: "localhost"}
		if l.Certificate != "" {
			config.Certificates = []tls.Certificate{must(tls.LoadX509KeyPair(l.Certificate, l.Key))}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	var mechanism sasl.Mechanism
	switch l.Mechanism {
	case "PLAIN":
		mechanism = plain.Auth{User: l.User, Pass: l.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		mechanism = scram.Auth{User: l.User, Pass: l.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		mechanism = scram.Auth{User: l.User, Pass: l.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		mechanism = oauth.Auth{Token: l.Token}.AsMechanism()
	default:
		return options
	}
	return append(options, kgo.SASL(mechanism))
}

// logins sends a record by each way, and reads it again.
func logins(ctx context.Context, topic, file string) {
	var ways []login
	err := json.Unmarshal(must(os.ReadFile(file)), &ways)
	check(err == nil, "%v", err)
	for _, way := range ways {
		client := must(kgo.NewClient(append(way.options(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...))
		sent := must(client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(way.Name)}).First())
		start := kgo.NewOffset().At(sent.Offset)
		reader := must(kgo.NewClient(append(way.options(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: start}}))...))
		read := reader.PollRecords(ctx, 1).Records()
		check(len(read) == 1 && string(read[0].Value) == way.Name, "%s: read %v", way.Name, read)
		client.Close()
		reader.Close()
		fmt.Println(way.Name)
	}
}
