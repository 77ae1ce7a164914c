package pifile

import (
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/providers/catalogue"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/sessionfile"
)

// settings returns the events that continue the session with the model and the thinking level of its leaf: for each the
// events of a command, as if a client had sent it. A value that is not valid in a command stays in the file's lines
// only.
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

// hasLevel reports whether the path to the leaf contains a thinking level: without one pi uses its default.
func (im *importer) hasLevel() bool {
	for _, e := range im.s.Path(im.s.Leaf()) {
		if e.Type == sessionfile.TypeThinkingLevel {
			return true
		}
	}
	return false
}

// modelRef returns a session's reference to a file's model. A model that is not in the catalogue keeps the file's name:
// the runner, which may know more models, decides whether it can use it.
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

// chosen records a setting of an import's command, so that it is not exported again after the lines that contain it.
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
