package schemas_test

import (
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// commitForm is the message that logs are made of.
func commitForm() apiMessage {
	return apiMessage{
		area: "commits", key: "commit", title: "commit", headers: "commitHeaders", contentType: schemas.ContentBatch,
		summary: "One or more events that were stored together, in order, as a CloudEvents batch in JSON.",
		payload: obj("schemaFormat", "application/schema+json;version=draft-2020-12", "schema",
			obj("type", "array", "minItems", 1, "items", ref("#/components/schemas/commitEvent"))),
	}
}

func commitHeaders() object {
	return obj("type", "object", "description", "What a reader needs without parsing the batch.",
		"required", []string{schemas.HeaderContentType, schemas.HeaderCommit}, "properties", obj(
			schemas.HeaderContentType, obj("const", schemas.ContentBatch, "description", "Media type of the payload."),
			schemas.HeaderCommit, text("Format, and sequences of the first and the last event.", "pattern",
				"^v2 [1-9][0-9]*-[1-9][0-9]*$", "examples", []string{"v2 12-15"}),
			schemas.HeaderPrevious, text("SHA-256 in hex over the ce- and Loopbus- headers, sorted, and the payload of the "+
				"message before it, as stored; absent in the first.", "pattern", "^[0-9a-f]{64}$"),
			"Nats-Expected-Last-Subject-Sequence", text(
				"Stream sequence of the message before it, which the server has checked.", "pattern", "^[0-9]+$"),
		))
}

// commitEvent is an event of a commit; what it may lack is that of the event before, but for causationid.
func commitEvent() object {
	types := schemas.DurableEventTypes()
	slices.Sort(types)
	var kinds []object
	for _, t := range types {
		kinds = append(kinds, obj("properties", obj(
			"type", obj("const", schemas.CloudEventType(t)), "data",
			ref(schemaPath(schemas.SchemaName{Area: "events", Name: string(t)})))))
	}
	const before = " Absent: as in the event before it in the commit; empty: none."
	return obj("type", "object", "description", "An event of a commit.", "required",
		[]string{"specversion", "id", "source", "type"},
		"properties", obj(
			"specversion", obj("const", schemas.SpecVersion, "description", "Version of CloudEvents."),
			"id", text("The session, a slash and the event's sequence: 1, 2, 3 … without a gap.", "pattern",
				"^[A-Za-z0-9_-]{1,64}/[1-9][0-9]*$", "examples", []string{"s1/42"}),
			"source", text("URI of the runner that wrote it.", "examples", []string{"/loopbus/runner/7f3a"}),
			"type", text("dev.loopbus, the event's name and the version.", "examples",
				[]string{schemas.CloudEventType(schemas.EventMessageEnd)}),
			"time", text("When it happened, RFC 3339."+before, "format", "date-time"),
			"runid", text("The run it belongs to."+before),
			"turnid", text("The turn it belongs to."+before),
			"correlationid", text("The command that began the run."+before),
			"causationid", text("The command this goes back to. Absent: the correlationid; empty: none."),
			"traceparent", text("W3C trace context."+before),
			"dataref", text("Where the data is kept, in the object store "+schemas.BucketBlobs+
				", if it is too large for a message."),
			"data", obj("description", "The event's data."),
		), "oneOf", kinds)
}
