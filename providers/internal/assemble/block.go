package assemble

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/providers/internal/partialjson"
	"github.com/loopbus/loopbus/providers/internal/wtf8"
	"github.com/loopbus/loopbus/schemas"
)

// parsing has the turns of arguments that are not small to be parsed: each is copied a few times.
var parsing = make(chan struct{}, 2)

// A Block is one block of the reply: text, thinking or a tool call. The API package maps a vendor's indexes to
// blocks. Any number of blocks may be open at once.
type Block struct {
	s         *Stream
	index     int
	kind      schemas.ContentType
	text      strings.Builder // of text or thinking, or a call's arguments as JSON
	joiner    wtf8.Joiner
	ended     bool
	signature []byte
	hidden    []byte // encrypted thinking; its base64 replaces the signature
	redacted  bool
	id, name  string
	arguments json.RawMessage // of a tool call; nil until it has ended

	incomplete bool // the arguments
}

// OpenText begins a block of text.
func (s *Stream) OpenText() *Block { return s.open(&Block{kind: schemas.ContentText}) }

// OpenThinking begins a block of thinking.
func (s *Stream) OpenThinking() *Block { return s.open(&Block{kind: schemas.ContentThinking}) }

// OpenToolCall begins a tool call. Its id and name may still be empty, see [Block.Identify].
func (s *Stream) OpenToolCall(id, name string) *Block {
	return s.open(&Block{kind: schemas.ContentToolCall, id: id, name: name})
}

func (s *Stream) open(b *Block) *Block {
	s.Start()
	b.s, b.index = s, len(s.blocks)
	if !s.countBlock(b) {
		b.ended = true // it ignores deltas and is not part of the reply
		return b
	}
	s.blocks = append(s.blocks, b)
	e := schemas.StreamEvent{Type: schemas.StreamTextStart, ContentIndex: b.index}
	switch b.kind {
	case schemas.ContentThinking:
		e.Type = schemas.StreamThinkingStart
	case schemas.ContentToolCall:
		e.Type = schemas.StreamToolCallStart
		e.ToolCall = &schemas.ToolCall{ID: b.id, Name: b.name}
	}
	s.send(e)
	return b
}

// Delta appends to the text, or to the JSON of a tool call's arguments. An empty delta sends an event too. The first
// half of a split emoji is buffered until the other half arrives. After [Block.End], Delta does nothing.
func (b *Block) Delta(delta string) {
	if b.ended || !b.grow(len(delta), schemas.QuotedSize(delta)) {
		return
	}
	if whole := b.joiner.Add(delta); whole != "" || delta == "" {
		b.append(whole)
	}
}

func (b *Block) append(delta string) {
	b.text.WriteString(delta)
	e := schemas.StreamEvent{Type: schemas.StreamTextDelta, ContentIndex: b.index, Delta: delta}
	switch b.kind {
	case schemas.ContentThinking:
		e.Type = schemas.StreamThinkingDelta
	case schemas.ContentToolCall:
		e.Type = schemas.StreamToolCallDelta
	}
	b.s.send(e)
}

// Replace sets the whole text, or the JSON of all arguments, and sends no delta. It is for vendors that send the whole
// at the end, again or only there. After [Block.End], Replace does nothing.
func (b *Block) Replace(text string) {
	before := b.text.String()
	if b.ended || !b.grow(len(text)-len(before), schemas.QuotedSize(text)-schemas.QuotedSize(before)) {
		return
	}
	b.joiner = wtf8.Joiner{}
	b.text.Reset()
	b.text.WriteString(wtf8.Clean(text))
}

// Text returns the text, or the JSON of the arguments, received so far. It returns nothing for a tool call that has
// ended.
func (b *Block) Text() string { return b.text.String() }

// Sign sets the vendor's signature and replaces an earlier one. The signature is kept byte for byte. Sign may be called
// after [Block.End].
func (b *Block) Sign(signature string) {
	if b.s.grow(schemas.QuotedSize(signature) - schemas.QuotedSize(string(b.signature))) {
		b.signature = []byte(signature)
	}
}

// AddSignature appends to the signature.
func (b *Block) AddSignature(piece string) {
	if b.s.grow(schemas.QuotedSize(piece)) {
		b.signature = append(b.signature, piece...)
	}
}

// Hide appends a piece of thinking that the vendor sends encrypted. The base64 of all pieces becomes the signature, and
// text replaces the text of the block. If the block has a signature already, Hide does nothing and returns false.
func (b *Block) Hide(piece []byte, text string) bool {
	if len(b.signature) > 0 {
		return false
	}
	if !b.redacted {
		b.Redact()
		b.Replace(text)
	}
	before, after := len(b.hidden), len(b.hidden)+len(piece)
	if b.s.grow(base64.StdEncoding.EncodedLen(after) - base64.StdEncoding.EncodedLen(before)) {
		b.hidden = append(b.hidden, piece...)
	}
	return true
}

// Redact records that the vendor hid the text of the thinking, so that only its signature is sent back.
func (b *Block) Redact() { b.redacted = true }

// Identify sets the id of a tool call if it is still empty, and likewise the name.
func (b *Block) Identify(id, name string) {
	if b.id == "" && b.s.grow(schemas.QuotedSize(id)) {
		b.id = id
	}
	if b.name == "" && b.s.grow(schemas.QuotedSize(name)) {
		b.name = name
	}
}

// Kind returns the type of the block.
func (b *Block) Kind() schemas.ContentType { return b.kind }

// End ends the block. A second call does nothing.
func (b *Block) End() {
	if b.ended {
		return
	}
	if b.s.evicted() && b.kind == schemas.ContentToolCall { // the reply is dropped, if it is not small
		b.ended = true
		return
	}
	if rest := b.joiner.Rest(); rest != "" {
		b.append(rest)
	}
	b.ended = true
	e := schemas.StreamEvent{Type: schemas.StreamTextEnd, ContentIndex: b.index}
	switch b.kind {
	case schemas.ContentText:
		e.Content = b.text.String()
	case schemas.ContentThinking:
		e.Type, e.Content = schemas.StreamThinkingEnd, b.text.String()
	case schemas.ContentToolCall:
		b.arguments, b.incomplete = b.parseArguments()
		b.text = strings.Builder{} // the arguments replace it, and may be as large
		call := b.toolCall()
		e.Type, e.ToolCall = schemas.StreamToolCallEnd, &call
	}
	b.s.send(e)
}

// parseArguments returns the arguments of a call as valid JSON, or {} if the reply has too many JSON values, or does
// not wait for its turn as it has to release its memory. They are incomplete if the text is no JSON: it was cut off, or
// has a mistake.
func (b *Block) parseArguments() (arguments json.RawMessage, incomplete bool) {
	if b.text.Len() > small {
		select {
		case parsing <- struct{}{}:
		case <-b.s.ctx.Done():
			if b.s.evicted() {
				return json.RawMessage("{}"), true
			}
			parsing <- struct{}{}
		}
		defer func() { <-parsing }()
	}
	arguments, complete := partialjson.Parse(b.text.String())
	if !b.s.countValues(arguments) {
		arguments = json.RawMessage("{}")
	}
	return arguments, !complete
}

func (b *Block) toolCall() schemas.ToolCall {
	arguments, incomplete := b.arguments, b.incomplete
	if arguments == nil {
		arguments, incomplete = b.parseArguments()
	}
	return schemas.ToolCall{ID: b.id, Name: b.name, Arguments: arguments, ThoughtSignature: string(b.signature),
		Incomplete: incomplete}
}

// EndAll ends all open blocks in the order of their indexes. The end of the stream does the same.
func (s *Stream) EndAll() {
	for _, b := range s.blocks {
		b.End()
	}
}

// HasToolCalls reports whether a tool call has been opened.
func (s *Stream) HasToolCalls() bool {
	return slices.ContainsFunc(s.blocks, func(b *Block) bool { return b.kind == schemas.ContentToolCall })
}

// Answered reports whether a text or a tool call has been opened: the vendor has sent more than thinking.
func (s *Stream) Answered() bool {
	return slices.ContainsFunc(s.blocks, func(b *Block) bool { return b.kind != schemas.ContentThinking })
}

func (b *Block) thinkingSignature() string {
	if len(b.hidden) > 0 {
		return base64.StdEncoding.EncodeToString(b.hidden)
	}
	return string(b.signature)
}

// content returns the blocks as the content of the message.
func (s *Stream) content() schemas.Contents {
	cs := make(schemas.Contents, 0, len(s.blocks))
	for _, b := range s.blocks {
		switch b.kind {
		case schemas.ContentText:
			cs = append(cs, schemas.Text{Text: b.text.String(), TextSignature: string(b.signature)})
		case schemas.ContentThinking:
			cs = append(cs, schemas.Thinking{
				Thinking: b.text.String(), ThinkingSignature: b.thinkingSignature(), Redacted: b.redacted,
			})
		case schemas.ContentToolCall:
			cs = append(cs, b.toolCall())
		}
	}
	return cs
}
