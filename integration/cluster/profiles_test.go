//go:build unix

package cluster_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// With replicas, too, a key that is full of answers of servers keeps its profile, and a runner deletes the answers.
func profilesUnderAnswers(t *testing.T, c *cluster.Cluster) {
	conn := system.Connect(t, c.URL(), "runner")
	kv, err := conn.JetStream().KeyValue(t.Context(), schemas.BucketProfiles)
	if err == nil {
		_, err = kv.PutString(t.Context(), "coder", `{"systemPrompt":"mine"}`)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if err := conn.NATS().PublishMsg(&nats.Msg{Subject: "agent.live.s1.update", Reply: "$KV.agent_profiles.coder",
			Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := conn.JetStream().Stream(t.Context(), "KV_"+schemas.BucketProfiles)
	if err != nil {
		t.Fatal(err)
	}
	messages := func() uint64 {
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter("$KV.agent_profiles.coder"))
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Msgs
	}
	bustest.Eventually(t, "the key is full", func() bool { return messages() == 64 })

	profiles := registry.NewProfiles(conn, errors.New("none"), nil)
	defer profiles.Close()
	if p, err := profiles.Profile(t.Context(), "coder"); err != nil || *p.SystemPrompt != "mine" {
		t.Fatalf("profile %+v, %v", p, err)
	}
	system.Start(t, c.URL(), system.Options{Model: worker(t), Streams: replicated})
	bustest.Eventually(t, "the profile is put again, alone", func() bool { return messages() == 1 })
	if _, err := kv.PutString(t.Context(), "coder", `{"systemPrompt":"changed"}`); err != nil {
		t.Error(err)
	}
	bustest.Eventually(t, "what was put counts", func() bool {
		p, err := profiles.Profile(t.Context(), "coder")
		return err == nil && *p.SystemPrompt == "changed"
	})
}
