package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Load reads a script from a file. The error names the file and the entry.
func Load(path string) (*Model, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("scripted: %w", err)
	}
	m, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Parse is like [Load] for the contents of a file.
func Parse(data []byte) (*Model, error) {
	var f fileJSON
	if list := bytes.TrimSpace(data); len(list) > 0 && list[0] == '[' {
		f.Responses = new([]json.RawMessage)
		if err := strict(data, f.Responses); err != nil {
			return nil, fmt.Errorf("scripted: %w", err)
		}
	} else if err := strict(data, &f); err != nil {
		return nil, fmt.Errorf("scripted: %w", err)
	}
	scripts, err := f.scripts()
	if err != nil {
		return nil, fmt.Errorf("scripted: %w", err)
	}
	o := Options{ChunkSize: f.ChunkSize, ChunkDelay: milliseconds(f.ChunkDelayMs)}
	return NewScripts(o, scripts...)
}

type fileJSON struct {
	Loop         bool               `json:"loop"`
	ChunkSize    int                `json:"chunkSize"`
	ChunkDelayMs float64            `json:"chunkDelayMs"`
	Responses    *[]json.RawMessage `json:"responses"`
	Scripts      *[]scriptJSON      `json:"scripts"`
}

type scriptJSON struct {
	Match     string            `json:"match"`
	Loop      bool              `json:"loop"`
	Responses []json.RawMessage `json:"responses"`
}

func (f *fileJSON) scripts() ([]Script, error) {
	if (f.Responses == nil) == (f.Scripts == nil) {
		return nil, errors.New("want either responses or scripts")
	}
	if f.Responses != nil {
		responses, err := decodeResponses(1, 1, *f.Responses)
		return []Script{{Responses: responses, Loop: f.Loop}}, err
	}
	if f.Loop {
		return nil, errors.New("loop belongs to each of the scripts")
	}
	var scripts []Script
	for i, s := range *f.Scripts {
		responses, err := decodeResponses(i+1, len(*f.Scripts), s.Responses)
		if err != nil {
			return nil, err
		}
		script := Script{Responses: responses, Loop: s.Loop}
		if s.Match != "" {
			if script.Match, err = regexp.Compile(s.Match); err != nil {
				return nil, fmt.Errorf("script %d: match: %w", i+1, err)
			}
		}
		scripts = append(scripts, script)
	}
	return scripts, nil
}

func decodeResponses(script, scripts int, raws []json.RawMessage) ([]Response, error) {
	responses := make([]Response, 0, len(raws))
	for i, raw := range raws {
		r, err := decodeResponse(raw)
		if err != nil {
			return nil, &placeError{script: script, scripts: scripts, response: i + 1, err: err}
		}
		responses = append(responses, r)
	}
	return responses, nil
}

// responseJSON is a response in either form.
type responseJSON struct {
	Fail    []string           `json:"fail"`
	Events  *[]json.RawMessage `json:"events"`
	Message json.RawMessage    `json:"message"` // decoded leniently: it may be copied from a transcript, role and all

	Thinking  string         `json:"thinking"`
	Text      string         `json:"text"`
	ToolCalls []toolCallJSON `json:"toolCalls"`
}

type toolCallJSON struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func decodeResponse(raw json.RawMessage) (Response, error) {
	var in responseJSON
	if err := strict(raw, &in); err != nil {
		return Response{}, err
	}
	r, err := in.response()
	r.Fail = in.Fail
	return r, err
}

func (in responseJSON) response() (Response, error) {
	short := in.Thinking != "" || in.Text != "" || len(in.ToolCalls) > 0
	switch {
	case short && (in.Events != nil || in.Message != nil):
		return Response{}, errors.New("want either events with message, or thinking, text and toolCalls")
	case short:
		return in.shorthand(), nil
	case in.Message == nil:
		return Response{}, errors.New("no message and no text, thinking or toolCalls")
	}
	var r Response
	if err := json.Unmarshal(in.Message, &r.Message); err != nil {
		return r, fmt.Errorf("message: %w", err)
	}
	if in.Events != nil {
		r.Events = make([]Event, 0, len(*in.Events))
		for i, raw := range *in.Events {
			e, err := decodeEvent(raw)
			if err != nil {
				return r, fmt.Errorf("event %d: %w", i+1, err)
			}
			r.Events = append(r.Events, e)
		}
	}
	return r, nil
}

func (in responseJSON) shorthand() Response {
	calls := make([]schemas.ToolCall, 0, len(in.ToolCalls))
	for _, c := range in.ToolCalls {
		calls = append(calls, schemas.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	r := Calls(in.Text, calls...)
	if in.Thinking != "" {
		r.Message.Content = append(schemas.Contents{schemas.Thinking{Thinking: in.Thinking}}, r.Message.Content...)
	}
	return r
}

// decodeEvent reads a stream event or {"delayMs": n}.
func decodeEvent(raw json.RawMessage) (e Event, err error) {
	var head struct {
		Type    schemas.StreamEventType `json:"type"`
		DelayMs *float64                `json:"delayMs"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return e, err
	}
	if head.DelayMs != nil {
		e.Delay = milliseconds(*head.DelayMs)
	}
	switch {
	case head.Type != "":
		err = json.Unmarshal(raw, &e.StreamEvent)
	case head.DelayMs == nil:
		err = errors.New("neither type nor delayMs")
	}
	return e, err
}

func milliseconds(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

// strict decodes one JSON value. It refuses unknown members, which are mistakes in a script.
func strict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("something follows the script")
	}
	return nil
}
