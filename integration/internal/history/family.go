package history

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// family is what the log of a parent has about one of its sub-agents.
type family struct {
	start  *schemas.SubagentStart
	link   schemas.SubagentLink
	seq    uint64
	begun  int
	aborts []uint64
	ends   []*schemas.SubagentEnd
	end    uint64 // sequence of the first
}

// checkFamilies checks that each sub-agent is started once, by one parent; that it runs at most once for it; that it
// reports its result once if it accepted its prompt; and that the parent accepts that result once, with the usage. The
// parent of a deleted sub-agent has a result too. A sub-agent whose parent was deleted needs no parent.
func (c *checker) checkFamilies() {
	parents := map[string]string{}
	for _, session := range sortedKeys(c.Logs) {
		for _, child := range childrenIn(session, c.Logs[session]) {
			if other := parents[child.start.Session]; other != "" {
				c.report(Doubled, session, child.seq, []string{child.start.Session},
					"session %s has started the same sub-agent", other)
			}
			parents[child.start.Session] = session
			c.checkChild(session, child)
		}
	}
	for _, session := range sortedKeys(c.Logs) {
		for _, e := range c.Logs[session] {
			if d, ok := e.Data.(*schemas.CommandAccepted); ok && d.Kind == schemas.CommandSubagentPrompt &&
				parents[session] == "" && !c.deleted(senderOf(d.CommandID)) {
				c.report(Foreign, session, e.Seq, []string{d.CommandID}, "no log has started this sub-agent")
			}
		}
	}
}

func sortedKeys(logs map[string][]schemas.Event) (keys []string) {
	for key := range logs {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// childrenIn returns the sub-agents that a log has started, in order.
func childrenIn(session string, log []schemas.Event) (all []*family) {
	by := map[string]*family{}
	nonces := map[schemas.CallKey]string{}
	for _, e := range log {
		switch d := e.Data.(type) {
		case *schemas.ToolExecutionStart:
			nonces[schemas.NewCallKey(e.Seq)] = d.Nonce
		case *schemas.SubagentStart:
			child := by[d.Session]
			if child == nil {
				child = &family{start: d, seq: e.Seq, link: schemas.SubagentLink{
					Session: session, Call: d.Call, Nonce: nonces[d.Call], Depth: d.Depth, MaxDepth: d.MaxDepth,
				}}
				by[d.Session] = child
				all = append(all, child)
			}
			child.begun++
		case *schemas.SubagentAborted:
			if child := by[d.Session]; child != nil {
				child.aborts = append(child.aborts, e.Seq)
			}
		case *schemas.SubagentEnd:
			if child := by[d.Session]; child != nil {
				child.ends = append(child.ends, d)
				if child.end == 0 {
					child.end = e.Seq
				}
			}
		}
	}
	return all
}

func (c *checker) checkChild(parent string, child *family) {
	ids := []string{child.start.Session, string(child.start.Call)}
	switch {
	case child.begun > 1:
		c.report(Doubled, parent, child.seq, ids, "the sub-agent was started %d times", child.begun)
	case len(child.ends) == 0:
		c.report(Stuck, parent, child.seq, ids, "the sub-agent has no subagent_end")
	case len(child.ends) > 1:
		c.report(Doubled, parent, child.end, ids, "the sub-agent has %d subagent_end events", len(child.ends))
	}
	if len(child.aborts) > 1 {
		c.report(Doubled, parent, child.aborts[1], ids, "the sub-agent was aborted %d times", len(child.aborts))
	}
	c.checkResult(parent, child, ids)
	if !c.deleted(child.start.Session) {
		c.checkWork(child, ids)
	}
}

// senderOf returns the parent that sent a command to a sub-agent; "" for the command of a client.
func senderOf(id string) string {
	link, _ := schemas.SubagentOf(strings.TrimSuffix(id, "/abort"))
	return link.Session
}

// checkResult checks that the result of a background sub-agent became a message of the parent once. It must not become
// a message if the parent was aborted first, or if the parent is itself a sub-agent whose run has ended: no run would
// read it. The result of a foreground sub-agent is the result of its call: see checkCalls.
func (c *checker) checkResult(parent string, child *family, ids []string) {
	if !child.start.Background || len(child.ends) == 0 {
		return
	}
	queued, want, forParent := 0, 1, false
	for _, e := range c.Logs[parent] {
		if d, ok := e.Data.(*schemas.AgentStart); ok {
			forParent = slices.ContainsFunc(d.Inputs, func(id string) bool { _, ok := schemas.SubagentOf(id); return ok })
		}
		if e.Seq > child.seq && e.Seq < child.end && (aborts(e.Data) || forParent && e.Type() == schemas.EventAgentEnd) {
			want = 0
		}
		if d, ok := e.Data.(*schemas.CommandAccepted); ok && d.CommandID == child.link.ResultID() && d.Queue != "" {
			queued++
		}
	}
	if queued != want {
		c.report(Lost, parent, child.end, ids, "the result of a background sub-agent became a message %d times instead of "+
			"%d times", queued, want)
	}
}

// aborts reports whether an event stops all calls and sub-agents of a session.
func aborts(data schemas.EventData) bool {
	switch d := data.(type) {
	case *schemas.CommandAccepted:
		switch d.Kind {
		case schemas.CommandAbort, schemas.CommandSubagentAbort:
			return true
		case schemas.CommandTimer: // the only timer that is accepted ends a run
			return true
		}
		return d.Queue == schemas.QueueInterrupt
	case *schemas.SubagentAborted: // of a sub-agent whose run has ended
		return true
	}
	return false
}

// checkWork compares the sub-agent's own log with its parent's.
func (c *checker) checkWork(child *family, ids []string) {
	accepted, runs, reports := 0, 0, 0
	state := &loop.State{Session: child.start.Session}
	for _, e := range c.Logs[child.start.Session] {
		switch d := e.Data.(type) {
		case *schemas.CommandAccepted:
			if d.CommandID == child.link.PromptID() {
				accepted++
			}
		case *schemas.AgentStart:
			if slices.Contains(d.Inputs, child.link.PromptID()) {
				runs++
			}
		case *schemas.SubagentReport:
			if reports++; len(child.ends) == 1 && child.ends[0].Usage.TotalTokens != state.Usage.TotalTokens {
				c.report(Result, child.start.Session, e.Seq, ids,
					"the sub-agent has used %d tokens, but its parent counts %d",
					state.Usage.TotalTokens, child.ends[0].Usage.TotalTokens)
			}
		}
		if err := state.Apply(e); err != nil {
			return // see checkRest
		}
	}
	if accepted > 1 || runs > 1 || reports != accepted {
		c.report(Doubled, child.start.Session, 0, ids, "the sub-agent accepted its prompt %d times, ran %d times for it and "+
			"reported its result %d times", accepted, runs, reports)
	}
	if accepted == 1 && len(state.Children) > 0 {
		c.report(Stuck, child.start.Session, 0, ids,
			"the sub-agent has %d unfinished sub-agents of its own", len(state.Children))
	}
}

// BetweenSessions returns the commands that sessions sent to each other: prompts and aborts of sub-agents, and their
// results. It reads them from the logs of the parents; those of a deleted parent it reads from the log of the
// sub-agent.
// They have no acknowledgement: [Check] does not require that they arrived. The text of a result is the one in the
// parent's log.
func BetweenSessions(logs map[string][]schemas.Event, deleted map[string]time.Time) (commands []Command) {
	type arrival struct{ session, id string }
	known := map[arrival]bool{}
	for _, parent := range sortedKeys(logs) {
		texts, results := map[string]string{}, map[string]string{}
		for _, e := range logs[parent] {
			if d, ok := e.Data.(*schemas.CommandAccepted); ok && d.Kind == schemas.CommandSubagentResult {
				if data, err := schemas.DecodeCommandData(d.Kind, d.Data); err == nil {
					results[d.CommandID] = data.(*schemas.SubagentResult).Text
				}
			}
			if d, ok := e.Data.(*schemas.ToolExecutionStart); ok && d.ToolName == schemas.ToolAgent {
				var args schemas.SubagentCall
				if json.Unmarshal(d.Args, &args) == nil {
					texts[string(schemas.NewCallKey(e.Seq))] = args.Prompt
				}
			}
		}
		for _, child := range childrenIn(parent, logs[parent]) {
			to, link := child.start.Session, child.link
			commands = append(commands,
				Command{Session: to, ID: link.PromptID(), Kind: schemas.CommandSubagentPrompt, Text: texts[string(link.Call)]},
				Command{Session: to, ID: link.AbortID(), Kind: schemas.CommandSubagentAbort},
				Command{Session: parent, ID: link.ResultID(), Kind: schemas.CommandSubagentResult,
					Text: results[link.ResultID()]})
			known[arrival{to, link.PromptID()}], known[arrival{to, link.AbortID()}] = true, true
		}
	}
	for _, session := range sortedKeys(logs) {
		for _, e := range logs[session] {
			cmd := arrived(e)
			if at := (arrival{session, cmd.ID}); !deleted[senderOf(cmd.ID)].IsZero() && !known[at] {
				known[at] = true
				commands = append(commands, cmd)
			}
		}
	}
	return commands
}

// arrived returns the command that an event accepts, applies or rejects, with the fields that the event has.
func arrived(e schemas.Event) Command {
	cmd := Command{Session: e.Session}
	switch d := e.Data.(type) {
	case *schemas.CommandAccepted:
		cmd.ID, cmd.Kind = d.CommandID, d.Kind
		if data, err := schemas.DecodeCommandData(d.Kind, d.Data); err == nil {
			if prompt, ok := data.(*schemas.SubagentPrompt); ok {
				cmd.Text = prompt.Text
			}
		}
	case *schemas.CommandApplied:
		cmd.ID = d.CommandID
	case *schemas.CommandRejected:
		cmd.ID = d.CommandID
	}
	return cmd
}
