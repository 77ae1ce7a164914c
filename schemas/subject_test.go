package schemas_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

func TestSubjectsBuild(t *testing.T) {
	acme, err := schemas.NewSubjects("acme.prod")
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		schemas.Subjects{}.Command("s1", schemas.CommandFollowUp): "agent.cmd.s1.follow_up",
		schemas.Subjects{}.Event("s1"):                            "agent.evt.s1",
		schemas.Subjects{}.LiveEvent("s1"):                        "agent.live.s1.event",
		schemas.Subjects{}.LiveUpdate("s1"):                       "agent.live.s1.update",
		schemas.Subjects{}.Tool("ls", "s1", "c7"):                 "agent.tool.ls.s1.c7",
		schemas.Subjects{}.Cancel("s1", "c7"):                     "agent.cancel.s1.c7",
		schemas.Subjects{}.Dead("AGENT_CMD", "_"):                 "agent.dead.AGENT_CMD._",
		schemas.Subjects{}.Reply("m1", "c7"):                      "agent.reply.m1.c7",
		schemas.Subjects{}.ModelRequest():                         "agent.model.request",
		schemas.Subjects{}.ModelCall("x1"):                        "agent.model.call.x1",
		schemas.Subjects{}.Key("openai"):                          "agent.key.openai",
		acme.Event("s1"):                                          "acme.prod.evt.s1",
		acme.Command("s1", "dance"):                               "acme.prod.cmd.s1.dance",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestNewSubjects(t *testing.T) {
	for prefix, legal := range map[string]bool{
		"": true, "agent": true, "a.b.c.d.e.f.g.h": true, "A-b_9": true,
		"a.b.c.d.e.f.g.h.i": false, ".": false, "a.": false, ".a": false, "a..b": false, "a b": false, "a.*": false,
		">": false, "ü": false, "a\n": false, "$SYS": false, strings.Repeat("a", 65): false,
	} {
		s, err := schemas.NewSubjects(prefix)
		if (err == nil) != legal || err != nil && !errors.Is(err, schemas.ErrSubject) {
			t.Errorf("%q: error %v", prefix, err)
		}
		if legal && prefix != "" && s.Prefix() != prefix {
			t.Errorf("%q: prefix %q", prefix, s.Prefix())
		}
	}
}

func TestCheckReply(t *testing.T) {
	acme, err := schemas.NewSubjects("acme.prod")
	if err != nil {
		t.Fatal(err)
	}
	for subject, legal := range map[string]bool{
		acme.Reply("m1", "c7"): true, "acme.prod.reply.x": true, "_INBOX.Ab9.1": true, "_INBOX_ann.Ab9": true,
		"": false, "acme.prod.reply": false, "acme.prod.reply.": false, "acme.prod.reply.*": false,
		"acme.prod.reply.>":    false,
		"acme.prod.replying.x": false, "agent.reply.m1.c7": false, "acme.prod.cmd.s1.prompt": false,
		"acme.prod.evt.s1": false,
		"_INBOX":           false, "_INBOX.": false, "_INBOX.>": false, "_INBOXES.a": false, "_INBOX_.a": false,
		"_INBOX_ann": false, "$KV.agent_tools.a.b": false,
		"acme.prod.reply.a b": false, "acme.prod.reply.a\n": false, "acme.prod.reply.a..b": false,
	} {
		err := acme.CheckReply(subject)
		if (err == nil) != legal || err != nil && !errors.Is(err, schemas.ErrSubject) {
			t.Errorf("%q: error %v", subject, err)
		}
	}
}

func TestMayAnswer(t *testing.T) {
	for reply, may := range map[string]bool{
		"_INBOX.Ab9.1": true, "_INBOX_ann.Ab9": true, "_R_.abcdef.ghijkl": true, "_R_.abcdef.ghijkl.hash.T": true,
		"": false, "_R_": false, "_R_.": false, "_R_.>": false, "_R_x.y": false, "_GR_.a.b.c": false,
		"agent.reply.m1.c7": false, "agent.cmd.s1.prompt": false, "$JS.API.STREAM.DELETE.AGENT_EVT": false,
	} {
		if schemas.MayAnswer(reply) != may {
			t.Errorf("%q: %v", reply, !may)
		}
	}
	if schemas.IsInbox("_R_.abcdef.ghijkl") {
		t.Error("a header may name what only a server gives")
	}
}

func TestCheckSession(t *testing.T) {
	for id, legal := range map[string]bool{
		"s1": true, "_": true, "-": true, "A_z-9": true, strings.Repeat("a", 64): true,
		"": false, strings.Repeat("a", 65): false, "a.b": false, "a b": false, "*": false, ">": false, "a\n": false,
		"é": false, "a/b": false, "a\x00": false, strings.Repeat("*", 5000): false,
	} {
		err := schemas.CheckSession(id)
		if (err == nil) != legal || err != nil && !errors.Is(err, schemas.ErrSubject) {
			t.Errorf("%.20q: error %v", id, err)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%.20q: error of %d bytes", id, len(err.Error()))
		}
	}
}

func TestParseCommandSubject(t *testing.T) {
	for _, test := range []struct {
		subject, session string
		kind             schemas.CommandKind
		legal            bool
	}{
		{"agent.cmd.s1.prompt", "s1", "prompt", true},
		{"agent.cmd.41.s1.prompt", "s1", "prompt", true}, // as stored
		{"agent.cmd.41.s1.timer.deadline-x", "s1", "timer", true},
		{"agent.cmd.41.s1.prompt.deadline-x", "", "", false},
		{"agent.cmd.s1.dance", "s1", "dance", true}, // whether it is known is not the grammar's business
		{"agent.cmd.s 1.prompt", "", "prompt", false},
		{"agent.cmd.*.prompt", "", "prompt", false},
		{"agent.cmd." + strings.Repeat("s", 65) + ".prompt", "", "prompt", false},
		{"agent.cmd..prompt", "", "prompt", false},
		{"agent.cmd.s1", "", "", false},
		{"agent.cmd.1.2.s1.prompt", "", "", false},
		{"agent.evt.s1", "", "", false},
		{"agents.cmd.s1.prompt", "", "", false},
		{"", "", "", false},
	} {
		session, kind, err := schemas.Subjects{}.ParseCommand(test.subject)
		if session != test.session || kind != test.kind || (err == nil) != test.legal {
			t.Errorf("%.40q: %q, %q, %v", test.subject, session, kind, err)
		}
		if err != nil && !errors.Is(err, schemas.ErrSubject) {
			t.Errorf("%.40q: error %v does not wrap ErrSubject", test.subject, err)
		}
	}
}

func TestParseOtherSubjects(t *testing.T) {
	s := schemas.Subjects{}
	parse := map[string]func(subject string) ([]string, error){
		"event": func(subject string) ([]string, error) { id, err := s.ParseEvent(subject); return []string{id}, err },
		"live": func(subject string) ([]string, error) {
			id, update, err := s.ParseLive(subject)
			return []string{id, map[bool]string{true: "update", false: "event"}[update]}, err
		},
		"tool": func(subject string) ([]string, error) {
			queue, id, call, err := s.ParseTool(subject)
			return []string{queue.Name(), id, call}, err
		},
		"cancel": func(subject string) ([]string, error) {
			id, call, err := s.ParseCancel(subject)
			return []string{id, call}, err
		},
		"dead": func(subject string) ([]string, error) {
			stream, id, err := s.ParseDead(subject)
			return []string{stream, id}, err
		},
	}
	for _, test := range []struct{ parser, subject, want string }{
		{"event", "agent.evt.s1", "s1"},
		{"event", "agent.evt.s1.x", ""}, {"event", "agent.evt.", ""}, {"event", "agent.cmd.s1", ""}, {"event", "evt.s1", ""},
		{"live", "agent.live.s1.event", "s1 event"}, {"live", "agent.live.s1.update", "s1 update"},
		{"live", "agent.live.s1.other", ""}, {"live", "agent.live.s1", ""}, {"live", "agent.live.*.event", ""},
		{"tool", "agent.tool.ls.s1.c7", "ls s1 c7"}, {"tool", "agent.tool.ls=2=w.s1.c7", "ls=2=w s1 c7"},
		{"tool", "agent.tool.ls=.s1.c7", ""}, {"tool", "agent.tool.=2.s1.c7", ""}, {"tool", "agent.tool.ls=2=.s1.c7", ""},
		{"tool", "agent.tool.ls.s1", ""}, {"tool", "agent.tool.ls.s1.c7.x", ""}, {"tool", "agent.tool..s1.c7", ""},
		{"tool", "agent.tool.ls.s1.>", ""}, {"tool", "agent.tool.ls.*.c7", ""}, {"tool", "", ""},
		{"cancel", "agent.cancel.s1.c7", "s1 c7"}, {"cancel", "agent.cancel.s1", ""}, {"cancel", "agent.cancel.s1.*", ""},
		{"dead", "agent.dead.AGENT_CMD._", "AGENT_CMD _"}, {"dead", "agent.dead.AGENT_CMD", ""},
		{"dead", "agent.dead.*.s1", ""},
	} {
		got, err := parse[test.parser](test.subject)
		if test.want == "" {
			if !errors.Is(err, schemas.ErrSubject) {
				t.Errorf("%s %q: %q, %v", test.parser, test.subject, got, err)
			}
			continue
		}
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("%s %q: %q, %v", test.parser, test.subject, got, err)
		}
	}
}

func TestAnnouncementKey(t *testing.T) {
	tool, worker, ok := schemas.ParseAnnouncementKey(schemas.AnnouncementKey("ls", "w1"))
	if tool != "ls" || worker != "w1" || !ok {
		t.Error(tool, worker, ok)
	}
	if _, _, ok := schemas.ParseAnnouncementKey("ls"); ok {
		t.Error("a key without a worker is parsed")
	}
}
