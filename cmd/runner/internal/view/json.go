package view

import (
	"io"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/schemas"
)

// JSON prints every event and update as a CloudEvent in JSON, one per line.
type JSON struct{ Out io.Writer }

// Event prints an event.
func (j JSON) Event(e schemas.Event) error {
	ce, err := codec.ToCloudEvent(e)
	return j.print(ce, err)
}

// Update prints an update.
func (j JSON) Update(u schemas.Update) error {
	ce, err := codec.UpdateToCloudEvent(u)
	return j.print(ce, err)
}

func (j JSON) print(e event.Event, err error) error {
	if err != nil {
		return err
	}
	line, err := e.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = j.Out.Write(append(line, '\n'))
	return err
}
