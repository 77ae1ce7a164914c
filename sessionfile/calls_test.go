package sessionfile_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/loop/compaction"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/sessionfile"
)

// messages keeps the original JSON of messages, because decoding drops unknown members.
type messages struct {
	t     *testing.T
	given map[schemas.Message]json.RawMessage
}

func newMessages(t *testing.T) *messages {
	t.Helper()
	return &messages{t, map[schemas.Message]json.RawMessage{}}
}

func (m *messages) decode(raw json.RawMessage) schemas.Message {
	m.t.Helper()
	message, err := schemas.DecodeMessage(raw)
	if err != nil {
		m.t.Fatal(err)
	}
	m.given[message] = raw
	return message
}

func (m *messages) decodeAll(raws []json.RawMessage) (list []schemas.Message) {
	m.t.Helper()
	for _, raw := range raws {
		list = append(list, m.decode(raw))
	}
	return list
}

// show returns the original JSON of the messages.
func (m *messages) show(list []schemas.Message) []any {
	m.t.Helper()
	shown := []any{}
	for _, message := range list {
		if raw, ok := m.given[message]; ok {
			shown = append(shown, raw)
		} else {
			shown = append(shown, json.RawMessage(marshal(m.t, message)))
		}
	}
	return shown
}

// entry returns an entry of a file in the form of package compaction.
func (m *messages) entry(e *sessionfile.Entry) compaction.Entry {
	m.t.Helper()
	c := compaction.Entry{ID: e.ID, Kind: compaction.Kind(e.Type), FirstKept: e.Text("firstKeptEntryId")}
	if raw := e.Shown(); raw != nil {
		c.Message = m.decode(raw)
	}
	c.FromHook = string(e.Get("fromHook")) == "true"
	_ = json.Unmarshal(e.Get("details"), &c.Files)
	return c
}

func (m *messages) entries(t *testing.T, raws []json.RawMessage) (list []compaction.Entry) {
	t.Helper()
	for _, e := range parsed(t, raws) {
		list = append(list, m.entry(e))
	}
	return list
}

func parsed(t *testing.T, raws []json.RawMessage) (list []*sessionfile.Entry) {
	t.Helper()
	for _, raw := range raws {
		e, err := sessionfile.NewEntry(raw)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

// call plays a case of any kind but session.
func (c *sessionCase) call(t *testing.T, n *normaliser) any {
	t.Helper()
	m := newMessages(t)
	switch c.Kind {
	case "parse":
		entries, _ := sessionfile.Parse([]byte(c.Text))
		return entries
	case "migrate":
		return c.migrate(t, n)
	case "list":
		return c.list(t, n)
	case "defaults":
		return compaction.DefaultSettings()
	case "estimateTokens":
		list := []int64{}
		for _, message := range m.decodeAll(c.Messages) {
			list = append(list, compaction.EstimateTokens(message))
		}
		return list
	case "estimateContextTokens":
		e := compaction.EstimateContext(m.decodeAll(c.Messages))
		r := result{"tokens": e.Tokens, "usageTokens": e.UsageTokens, "trailingTokens": e.TrailingTokens}
		if r["lastUsageIndex"] = any(nil); e.LastUsageIndex >= 0 {
			r["lastUsageIndex"] = e.LastUsageIndex
		}
		return r
	case "contextTokens":
		list := []int64{}
		for _, raw := range c.Usages {
			list = append(list, compaction.UsageTokens(decode[schemas.Usage](t, raw)))
		}
		return list
	case "lastUsage":
		return c.lastUsage(t, m)
	case "prepare":
		return c.prepare(t, m)
	case "compact":
		return c.compact(t, m)
	case "prepareBranch":
		p := compaction.PrepareBranch(m.entries(t, c.Entries), c.Budget)
		return result{"messages": m.show(p.Messages), "fileOps": fileOps(p.Files), "totalTokens": p.Tokens}
	case "summarizeBranch":
		return c.summarizeBranch(t, m)
	case "serialize":
		return compaction.Serialize(m.decodeAll(c.Messages))
	case "toLlm":
		return m.show(compaction.ToLLM(m.decodeAll(c.Messages)))
	case "shouldCompact", "turnStart", "cutPoint", "collect", "fileLists":
		list := []any{}
		for _, given := range c.Calls {
			list = append(list, c.one(t, m, given))
		}
		return list
	}
	t.Fatalf("unknown kind %q", c.Kind)
	return nil
}

// one plays one call of a case.
func (c *sessionCase) one(t *testing.T, m *messages, given caseCall) any {
	t.Helper()
	entries := m.entries(t, c.Entries)
	switch c.Kind {
	case "shouldCompact":
		return compaction.ShouldCompact(given.Tokens, given.Window, decode[compaction.Settings](t, given.Settings))
	case "turnStart":
		return compaction.TurnStart(entries, given.Index, given.Start)
	case "cutPoint":
		end := len(entries)
		if given.End != nil {
			end = *given.End
		}
		cut := compaction.FindCut(entries, given.Start, end, given.Keep)
		return result{"firstKeptEntryIndex": cut.FirstKept, "turnStartIndex": cut.TurnStart, "isSplitTurn": cut.Split}
	case "collect":
		header := json.RawMessage(`{"type":"session","version":3,"id":"s"}`)
		s := sessionfile.FromEntries(append(parsed(t, []json.RawMessage{header}), parsed(t, c.Entries)...))
		ids, ancestor := compaction.Left(parents(s), given.From, given.To)
		return result{"ids": ids, "commonAncestorId": orNull(ancestor)}
	}
	files := compaction.Files{Read: set(given.Read), Written: set(given.Written), Edited: set(given.Edited)}
	lists := files.Lists()
	return result{"readFiles": lists.ReadFiles, "modifiedFiles": lists.ModifiedFiles, "text": lists.Text()}
}

func set(list []string) map[string]bool {
	m := map[string]bool{}
	for _, path := range list {
		m[path] = true
	}
	return m
}

func (c *sessionCase) migrate(t *testing.T, n *normaliser) any {
	t.Helper()
	entries := parsed(t, c.Entries)
	known := map[string]bool{}
	for _, e := range entries {
		known[e.ID] = true
	}
	sessionfile.Migrate(entries)
	for _, e := range entries {
		if e.Type != sessionfile.TypeSession && !known[e.ID] {
			n.made(e.ID)
		}
	}
	return entries
}

func (c *sessionCase) list(t *testing.T, n *normaliser) any {
	t.Helper()
	for name, lines := range c.Files {
		path := filepath.Join(n.dir, name)
		if err := os.WriteFile(path, linesText(t, lines, true), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, clockStart, clockStart); err != nil {
			t.Fatal(err)
		}
	}
	infos, err := sessionfile.List(n.dir)
	if err != nil {
		t.Fatal(err)
	}
	list := []any{}
	for _, info := range infos {
		r := decode[map[string]any](t, marshal(t, info))
		r["created"], r["modified"] = sessionfile.Stamp(info.Created), sessionfile.Stamp(info.Modified)
		if info.Created.IsZero() {
			r["created"] = nil
		}
		list = append(list, r)
	}
	return list
}

// lastUsage returns the last usage with its original members.
func (c *sessionCase) lastUsage(t *testing.T, m *messages) any {
	t.Helper()
	entries := m.entries(t, c.Entries)
	u, ok := compaction.LastUsage(entries)
	if !ok {
		return nil
	}
	for _, e := range slices.Backward(entries) {
		a, ok := e.Message.(*schemas.AssistantMessage)
		if ok && a.Usage == u {
			return decode[struct{ Usage any }](t, m.given[a]).Usage
		}
	}
	return u
}

func (c *sessionCase) prepare(t *testing.T, m *messages) any {
	t.Helper()
	p := compaction.Prepare(m.entries(t, c.Entries), decode[compaction.Settings](t, c.Settings))
	if p == nil {
		return nil
	}
	r := result{
		"firstKeptEntryId": p.FirstKept, "messagesToSummarize": m.show(p.History),
		"turnPrefixMessages": m.show(p.TurnPrefix), "isSplitTurn": p.Split, "tokensBefore": p.TokensBefore,
		"fileOps": fileOps(p.Files), "settings": p.Settings,
	}
	if p.PreviousSummary != "" {
		r["previousSummary"] = p.PreviousSummary
	}
	return r
}

func fileOps(f compaction.Files) any {
	lists := f.Lists()
	return result{
		"read": compaction.Sorted(f.Read), "written": compaction.Sorted(f.Written), "edited": compaction.Sorted(f.Edited),
		"readFiles": lists.ReadFiles, "modifiedFiles": lists.ModifiedFiles,
	}
}

func (c *sessionCase) compact(t *testing.T, m *messages) any {
	t.Helper()
	p := compaction.Prepare(m.entries(t, c.Entries), decode[compaction.Settings](t, c.Settings))
	if p == nil {
		t.Fatal("there is nothing to compact")
	}
	asked := p.Requests(compaction.Asking{
		Focus: c.CustomInstructions, Reasons: c.Model.Reasoning, ThinkingLevel: schemas.ThinkingLevel(c.ThinkingLevel),
	})
	requests, replies := []any{}, []*schemas.AssistantMessage{}
	for i, request := range asked {
		requests = append(requests, recorded(t, request))
		replies = append(replies, c.Replies[i].message(t))
	}
	slices.SortStableFunc(requests, func(a, b any) int {
		return strings.Compare(a.(result)["kind"].(string), b.(result)["kind"].(string))
	})
	r := result{"requests": requests}
	sum, err := p.Summarize(replies...)
	if err != nil {
		r["error"] = err.Error()
		return r
	}
	r["result"] = result{
		"summary": sum.Summary, "firstKeptEntryId": sum.FirstKept, "tokensBefore": sum.TokensBefore, "details": sum.Files,
	}
	return r
}

func (c *sessionCase) summarizeBranch(t *testing.T, m *messages) any {
	t.Helper()
	text, lists, requests, err := summarizeBranch(t, m.entries(t, c.Entries), c.Model, c.Options, c.Replies)
	r := result{"requests": requests}
	switch {
	case errors.Is(err, compaction.ErrAborted):
		r["result"] = result{"aborted": true}
	case errors.Is(err, compaction.ErrNoContent):
		r["result"] = result{"summary": err.Error()}
	case err != nil:
		r["result"] = result{"error": err.Error()}
	default:
		r["result"] = result{"summary": text, "readFiles": lists.ReadFiles, "modifiedFiles": lists.ModifiedFiles}
	}
	return r
}

// summarizeBranch requests the summary of a branch and uses the first of the replies.
func summarizeBranch(t *testing.T, entries []compaction.Entry, model caseModel, o caseOptions, replies []caseReply) (
	string, compaction.FileLists, []any, error,
) {
	t.Helper()
	p := compaction.PrepareBranch(entries, compaction.BranchBudget(model.ContextWindow, o.ReserveTokens))
	request, err := p.Request(o.CustomInstructions, o.ReplaceInstructions)
	if err != nil {
		return "", compaction.FileLists{}, []any{}, err
	}
	text, lists, err := p.Summarize(replies[0].message(t))
	return text, lists, []any{recorded(t, request)}, err
}

func (r caseReply) message(t *testing.T) *schemas.AssistantMessage {
	t.Helper()
	a := &schemas.AssistantMessage{StopReason: schemas.StopStop, ErrorMessage: r.ErrorMessage}
	if r.StopReason != "" {
		a.StopReason = schemas.StopReason(r.StopReason)
	}
	var blocks []string
	if len(r.Text) > 0 && json.Unmarshal(r.Text, &blocks) != nil {
		blocks = []string{decode[string](t, r.Text)}
	}
	for _, text := range blocks {
		a.Content = append(a.Content, schemas.Text{Text: text})
	}
	return a
}

// recorded returns a request in the form of the recordings: the text between its tags, without its instructions.
func recorded(t *testing.T, r compaction.Request) result {
	t.Helper()
	v := result{"kind": string(r.Kind), "messages": 1, "maxTokens": r.MaxTokens, "apiKey": "key"}
	rest, ok := strings.CutPrefix(r.Prompt, "<conversation>\n")
	text, rest, found := strings.Cut(rest, "\n</conversation>\n\n")
	if !ok || !found || r.SystemPrompt == "" {
		t.Fatalf("request without a conversation or a system prompt: %q", r.Prompt)
	}
	v["conversation"] = text
	if inner, ok := strings.CutPrefix(rest, "<previous-summary>\n"); ok {
		v["previousSummary"], rest, _ = strings.Cut(inner, "\n</previous-summary>\n\n")
	}
	instructions, focus, focused := strings.Cut(rest, "\n\nAdditional focus: ")
	if focused {
		v["additionalFocus"] = focus
	}
	if r.Kind == compaction.RequestCustom {
		v["instructions"] = rest
		delete(v, "additionalFocus")
	} else if !strings.Contains(instructions, "## ") {
		t.Errorf("instructions without a form: %q", instructions)
	}
	if r.ThinkingLevel != "" {
		v["reasoning"] = r.ThinkingLevel
	}
	return v
}

func decode[T any](t *testing.T, raw json.RawMessage) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
