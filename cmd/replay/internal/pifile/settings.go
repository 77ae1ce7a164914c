package pifile

import (
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/providers/catalogue"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/sessionfile"
)

// settings are the events that let the session go on with the model and the thinking level of its leaf: those of a
// command each, as if somebody had sent it. A value that no command can have is left in the file's lines.
func (im *importer) settings() (events []schemas.EventData, err error) {
	c := im.s.Context(im.s.Leaf())
	var commands []schemas.CommandData
	if c.Model != nil && c.Model.ModelID != "" {
		ref, err := modelRef(c.Model)
		if err != nil {
			return nil, err
		}
		commands = append(commands, &schemas.SetModel{Model: ref})
	}
	if im.hasLevel() {
		commands = append(commands, &schemas.SetThinkingLevel{ThinkingLevel: schemas.ThinkingLevel(c.ThinkingLevel)})
	}
	for _, data := range commands {
		raw, err := schemas.Marshal(data)
		if err != nil {
			return nil, err
		}
		if schemas.ValidateCommand(data.CommandKind(), raw) != nil {
			continue
		}
		command := schemas.Command{ID: "import-" + string(data.CommandKind()), Source: source, Data: data}
		events = append(events, loop.Accept(new(loop.State), command, raw, loop.Rules{})...)
	}
	return events, nil
}

// hasLevel reports whether the path to the leaf says a thinking level: without one pi takes its default.
func (im *importer) hasLevel() bool {
	for _, e := range im.s.Path(im.s.Leaf()) {
		if e.Type == sessionfile.TypeThinkingLevel {
			return true
		}
	}
	return false
}

// modelRef names a file's model as a session does. One that the catalogue does not have is named as the file names it:
// the runner, which may know more, says what it can do with it.
func modelRef(m *sessionfile.Model) (schemas.ModelRef, error) {
	ref := schemas.ModelRef{Provider: m.Provider, ID: m.ModelID}
	known, err := catalogue.Parse(nil)
	if err != nil {
		return ref, err
	}
	if found, err := known.Find(ref); err == nil {
		return found.Ref(), nil
	}
	return ref, nil
}

// chosen takes in what a command of an import sets, so that it is not written again behind the lines that say it.
func (x *exporter) chosen(d *schemas.CommandAccepted) {
	data, err := schemas.DecodeCommandData(d.Kind, d.Data)
	if err != nil {
		return
	}
	switch c := data.(type) {
	case *schemas.SetModel:
		x.model = c.Model
	case *schemas.SetThinkingLevel:
		x.thinking = c.ThinkingLevel
	}
}
