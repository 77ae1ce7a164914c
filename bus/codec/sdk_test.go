package codec_test

import (
	"bytes"
	"context"
	"io"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// sdkMessage implements the SDK's binding for NATS messages, in both modes. The SDK's own NATS protocol has no
// percent-encoding, so sdkMessage adds it.
type sdkMessage struct {
	header nats.Header
	data   []byte
}

var sdkVersions = spec.WithPrefix("ce-")

func (m *sdkMessage) ReadEncoding() binding.Encoding {
	if m.header.Get("Content-Type") == event.ApplicationCloudEventsJSON {
		return binding.EncodingStructured
	}
	return binding.EncodingBinary
}

func (m *sdkMessage) ReadStructured(ctx context.Context, w binding.StructuredWriter) error {
	if m.ReadEncoding() != binding.EncodingStructured {
		return binding.ErrNotStructured
	}
	return w.SetStructuredEvent(ctx, format.JSON, bytes.NewReader(m.data))
}

func (m *sdkMessage) ReadBinary(_ context.Context, w binding.BinaryWriter) error {
	version := sdkVersions.Version(m.header.Get("ce-specversion"))
	for key, values := range m.header {
		value, err := schemas.DecodeHeaderValue(values[0])
		if err != nil {
			return err
		}
		if a := version.Attribute(key); a != nil {
			err = w.SetAttribute(a, value)
		} else if name, ok := strings.CutPrefix(key, "ce-"); ok {
			err = w.SetExtension(name, value)
		}
		if err != nil {
			return err
		}
	}
	return w.SetData(bytes.NewReader(m.data))
}

func (m *sdkMessage) GetAttribute(k spec.Kind) (spec.Attribute, any) {
	a := sdkVersions.Version(m.header.Get("ce-specversion")).AttributeFromKind(k)
	if v := m.header[a.PrefixedName()]; len(v) > 0 {
		return a, v[0]
	}
	return a, nil
}

func (m *sdkMessage) GetExtension(name string) any {
	if v := m.header["ce-"+name]; len(v) > 0 {
		return v[0]
	}
	return nil
}

func (m *sdkMessage) Finish(error) error                 { return nil }
func (m *sdkMessage) Start(context.Context) error        { m.header = nats.Header{}; return nil }
func (m *sdkMessage) End(context.Context) error          { return nil }
func (m *sdkMessage) SetData(r io.Reader) (err error)    { m.data, err = io.ReadAll(r); return err }
func (m *sdkMessage) SetExtension(n string, v any) error { return m.set("ce-"+n, v) }
func (m *sdkMessage) SetAttribute(a spec.Attribute, v any) error {
	return m.set("ce-"+a.Name(), v)
}

func (m *sdkMessage) set(key string, v any) error {
	s, err := types.Format(v)
	m.header[key] = []string{schemas.EncodeHeaderValue(s)}
	return err
}

func (m *sdkMessage) SetStructuredEvent(_ context.Context, f format.Format, r io.Reader) (err error) {
	m.header = nats.Header{"Content-Type": {f.MediaType()}}
	m.data, err = io.ReadAll(r)
	return err
}
