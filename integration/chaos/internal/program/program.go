// Package program derives from a seed what a chaos test does: the commands that clients send, and the faults that are
// injected in the meantime. The same seed gives the same commands and faults.
package program

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Step is one command of a session's program.
type Step struct {
	Pause time.Duration // before it is sent
	ID    string
	Data  schemas.CommandData
	Again bool // repeats an earlier command with the same id
	Loose bool // is sent without waiting for an acknowledgement
}

// The models of a session: Slow streams slowly and calls no tools, Caller calls the tools that the lines of a prompt
// name.
var (
	Slow   = schemas.ModelRef{API: "scripted", Provider: "scripted", ID: "scripted"}
	Caller = schemas.ModelRef{API: "rehearsal", Provider: "rehearsal", ID: "rehearsal"}
)

// Commands of the tool bash append a line to the file CountFile. They start with LinePrefix.
const (
	CountFile  = "bash.count"
	LinePrefix = "echo "
)

// weights are the relative frequencies of the kinds of steps.
var weights = []struct {
	weight int
	make   func(*session) Step
}{
	{8, (*session).prompt},
	{30, (*session).toolPrompt},
	{14, (*session).steer},
	{10, (*session).followUp},
	{8, (*session).abort},
	{4, (*session).clear},
	{6, (*session).cancel},
	{6, (*session).setModel},
	{12, (*session).again},
}

// session generates the steps of one session.
type session struct {
	*rand.Rand
	name   string
	sent   []Step
	inputs []string // ids of prompts, steers and follow-ups
}

// Session returns the program of a session. Its pauses add up to about length and are pace long on average.
func Session(seed uint64, name string, length, pace time.Duration) []Step {
	s := &session{Rand: rand.New(rand.NewPCG(seed, hash(name))), name: name}
	if s.chance(75) {
		s.sent = append(s.sent, s.step(&schemas.SetModel{Model: Caller}))
	}
	for left := length; ; {
		pause := time.Duration(s.ExpFloat64() * float64(pace))
		if left -= pause; left < 0 {
			return s.sent
		}
		step := s.draw()
		step.Pause = pause
		s.sent = append(s.sent, step)
	}
}

func hash(name string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

func (s *session) draw() Step {
	total := 0
	for _, w := range weights {
		total += w.weight
	}
	n := s.IntN(total)
	for _, w := range weights {
		if n -= w.weight; n < 0 {
			return w.make(s)
		}
	}
	panic("unreachable")
}

func (s *session) chance(percent int) bool { return s.IntN(100) < percent }

// step returns a new command with its id.
func (s *session) step(data schemas.CommandData) Step {
	return Step{ID: fmt.Sprintf("%s-%d", s.name, len(s.sent)), Data: data, Loose: s.chance(3)}
}

// input returns a step whose text contains its id, so that no two inputs of a test are alike.
func (s *session) input(make func(schemas.Input) schemas.CommandData, lines ...string) Step {
	step := s.step(nil)
	text := strings.Join(append([]string{"say " + step.ID}, lines...), "\n")
	step.Data = make(schemas.Input{Text: text})
	s.inputs = append(s.inputs, step.ID)
	return step
}

func (s *session) asPrompt(in schemas.Input) schemas.CommandData {
	busy := schemas.BusyQueue
	switch n := s.IntN(100); {
	case n < 10:
		busy = schemas.BusySteer
	case n < 20:
		busy = schemas.BusyFollowUp
	case n < 35:
		busy = schemas.BusyInterrupt
	case n < 45:
		busy = schemas.BusyReject
	}
	return &schemas.Prompt{Input: in, WhenBusy: busy}
}

func (s *session) prompt() Step { return s.input(s.asPrompt) }

// toolPrompt returns a prompt for one to four parallel calls.
func (s *session) toolPrompt() Step {
	var lines []string
	for i := range 1 + s.IntN(4) {
		lines = append(lines, s.call(fmt.Sprintf("%s-%d.%d", s.name, len(s.sent), i)))
	}
	return s.input(s.asPrompt, lines...)
}

// call returns a line that the model turns into a call. One in eight starts a sub-agent, which makes the call.
func (s *session) call(key string) string {
	if !s.chance(12) {
		return s.work(key)
	}
	line := s.work(key)
	if s.chance(20) { // a sub-agent of the sub-agent makes the call
		line = s.agent(line)
	}
	return s.agent(line)
}

// agent returns a line that starts a sub-agent with a prompt.
func (s *session) agent(prompt string) string {
	background := s.chance(50)
	args, err := schemas.Marshal(schemas.SubagentCall{
		Prompt: prompt, Background: background, Join: background && s.chance(40),
	})
	if err != nil {
		panic(err) // strings and booleans can always be encoded
	}
	return "call " + schemas.ToolAgent + " " + string(args)
}

// work returns a line that calls an unsafe, idempotent or read-only tool. An unsafe call writes key to the count file,
// because bash does not receive the key of its call.
func (s *session) work(key string) string {
	ms := s.IntN(400)
	if s.chance(10) {
		ms += 2000
	}
	switch n := s.IntN(100); {
	case n < 55:
		return fmt.Sprintf("!%s%s >> %s; sleep %d.%03d", LinePrefix, key, CountFile, ms/1000, ms%1000)
	case n < 75:
		return fmt.Sprintf("write %s: %d", key, ms)
	case n < 90:
		return fmt.Sprintf("find %d %s", ms, key)
	}
	return "ls"
}

func (s *session) steer() Step {
	return s.input(func(in schemas.Input) schemas.CommandData { return &schemas.Steer{Input: in} })
}

func (s *session) followUp() Step {
	return s.input(func(in schemas.Input) schemas.CommandData { return &schemas.FollowUp{Input: in} })
}

func (s *session) abort() Step {
	return s.step(&schemas.Abort{Reason: "chaos", ClearQueue: s.chance(30)})
}

func (s *session) clear() Step {
	queues := []schemas.Queue{"", schemas.QueueSteering, schemas.QueueFollowUp, schemas.QueuePrompts}
	return s.step(&schemas.ClearQueue{Queue: string(queues[s.IntN(len(queues))])})
}

// cancel withdraws one of the newest inputs, or one that was never sent.
func (s *session) cancel() Step {
	id := "nobody"
	if n := len(s.inputs); n > 0 && !s.chance(5) {
		id = s.inputs[max(0, n-1-s.IntN(3))]
	}
	return s.step(&schemas.CancelInput{InputID: id})
}

func (s *session) setModel() Step {
	if s.chance(35) {
		return s.step(&schemas.SetModel{Model: Slow})
	}
	return s.step(&schemas.SetModel{Model: Caller})
}

// again repeats an earlier command.
func (s *session) again() Step {
	if len(s.sent) == 0 {
		return s.toolPrompt()
	}
	step := s.sent[s.IntN(len(s.sent))]
	step.Again, step.Loose = true, false
	return step
}
