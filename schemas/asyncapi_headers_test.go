package schemas_test

import "github.com/loopbus/loopbus/schemas"

const tokenPattern = "^[A-Za-z0-9_-]{1,64}$"

func text(description string, more ...any) object {
	return append(obj("type", "string", "description", description), obj(more...)...)
}

// headerSchemas describes the headers of each kind of message.
func headerSchemas() object {
	event := obj(
		schemas.HeaderSpecVersion, obj("const", schemas.SpecVersion, "description", "Version of CloudEvents."),
		schemas.HeaderID, text("The session, a slash and the event's sequence.", "pattern",
			"^[A-Za-z0-9_-]{1,64}/[1-9][0-9]*$", "examples", []string{"s1/42"}),
		schemas.HeaderSource, text("URI of the runner that wrote it.", "examples", []string{"/loopbus/runner/7f3a"}),
		schemas.HeaderType, text("dev.loopbus, the event's name and the version.", "examples",
			[]string{schemas.CloudEventType(schemas.EventMessageEnd)}),
		schemas.HeaderSubject, text("The session.", "pattern", tokenPattern),
		schemas.HeaderTime, text("When it happened, RFC 3339.", "format", "date-time"),
		schemas.HeaderDataContentType, obj("const", schemas.ContentJSON, "description", "Media type of the payload."),
		schemas.HeaderDataSchema, text("$id of the payload's JSON Schema.", "format", "uri"),
		schemas.HeaderSequence, text("The event's sequence, 1, 2, 3 … without a gap, padded so that it sorts as text.",
			"pattern", "^[0-9]{20}$"),
		schemas.HeaderRunID, text("The run it belongs to."),
		schemas.HeaderTurnID, text("The turn it belongs to."),
		schemas.HeaderCorrelationID, text("The command that began the run."),
		schemas.HeaderCausationID, text("The command this goes back to."),
		schemas.HeaderPartitionKey, text("The session."),
		schemas.HeaderTraceParent, text("W3C trace context."),
		schemas.HeaderPrevHash, text("SHA-256 in hex over the ce- headers, sorted, and the payload of the message "+
			"before it, as stored; absent in the first.", "pattern", "^[0-9a-f]{64}$"),
		schemas.HeaderDataRef, text("Where the payload is kept, in the object store "+schemas.BucketBlobs+
			", if it is too large for a message; the payload is then empty."),
	)
	update := obj(
		schemas.HeaderSpecVersion, obj("const", schemas.SpecVersion, "description", "Version of CloudEvents."),
		schemas.HeaderID, text("The session, a slash, the sequence of the event it belongs to, a dot and its number, from 1.",
			"pattern", "^[A-Za-z0-9_-]{1,64}/[1-9][0-9]*\\.[1-9][0-9]*$", "examples", []string{"s1/42.7"}),
		schemas.HeaderSource, text("URI of the runner or worker that sent it."),
		schemas.HeaderType, text("dev.loopbus, the update's name and the version."),
		schemas.HeaderSubject, text("The session.", "pattern", tokenPattern),
		schemas.HeaderTime, text("When it happened, RFC 3339.", "format", "date-time"),
		schemas.HeaderDataContentType, obj("const", schemas.ContentJSON, "description", "Media type of the payload."),
		schemas.HeaderDataSchema, text("$id of the payload's JSON Schema.", "format", "uri"),
		schemas.HeaderSequence, text("Event sequence and number, padded so that they sort as text.", "pattern",
			"^[0-9]{20}\\.[0-9]{6,}$"),
		schemas.HeaderRunID, text("The run it belongs to."),
		schemas.HeaderTurnID, text("The turn it belongs to."),
	)
	required := []string{schemas.HeaderSpecVersion, schemas.HeaderID, schemas.HeaderSource, schemas.HeaderType,
		schemas.HeaderTime}
	return obj(
		"commitHeaders", commitHeaders(),
		"commitEvent", commitEvent(),
		"eventHeaders", obj("type", "object", "description",
			"An event of a log of an earlier version, as a CloudEvent in binary mode.", "required", required, "properties",
			event),
		"updateHeaders", obj("type", "object", "description", "An update as a CloudEvent in binary mode.", "required",
			required, "properties", update),
		"commandHeaders", commandHeaders(),
		"structuredCommand", structuredCommand(),
		"deadLetterHeaders", deadLetterHeaders(),
	)
}

func commandHeaders() object {
	return obj("type", "object",
		"description", "None for the bare JSON of a command. With ce-specversion the command is a CloudEvent in binary "+
			"mode and needs ce-id, ce-source and ce-type.",
		"properties", obj(
			schemas.HeaderSpecVersion, obj("const", schemas.SpecVersion, "description", "Version of CloudEvents."),
			schemas.HeaderID, text("The command's id. The same id again changes nothing.", "minLength", 1, "maxLength",
				schemas.MaxCommandID),
			schemas.HeaderSource, text("URI of the sender."),
			schemas.HeaderType, text("dev.loopbus, the command's kind and the version."),
			schemas.HeaderSubject, text("The session.", "pattern", tokenPattern),
			"Loopbus-Command", text("The command's kind, where nothing else shows that a client sent it."),
			"Loopbus-Command-Id", text("The command's id, in place of the one in the message, of a dead letter that is "+
				"sent again.", "minLength", 1, "maxLength", schemas.MaxCommandID),
			schemas.HeaderTime, text("When it was sent, RFC 3339.", "format", "date-time"),
			schemas.HeaderDataContentType, text("Media type of the payload.", "enum",
				[]string{schemas.ContentJSON, "text/plain"}),
			schemas.HeaderDataSchema, text("$id of the payload's JSON Schema.", "format", "uri"),
			schemas.HeaderTraceParent, text("W3C trace context."),
			"traceparent", text("W3C trace context of a command that is no CloudEvent."),
			schemas.HeaderReply, text("Requests the outcome at "+schemas.HeaderReplyTo+": the newest event about the "+
				"command, once the command is in the log.", "const", schemas.ReplyOutcome),
			schemas.HeaderReplyTo, text("The inbox that the outcome is sent to."),
			"Nats-Msg-Id", text("Lets the server drop a message sent twice; the command's id where it has no other."),
		),
		"dependentRequired", obj(schemas.HeaderSpecVersion,
			[]string{schemas.HeaderID, schemas.HeaderSource, schemas.HeaderType}),
	)
}

func structuredCommand() object {
	return obj("type", "object", "description", "A CloudEvent in structured mode.", "required",
		[]string{"specversion", "id", "source", "type"},
		"properties", obj(
			"specversion", obj("const", schemas.SpecVersion, "description", "Version of CloudEvents."),
			"id", text("The command's id. The same id again changes nothing.", "minLength", 1, "maxLength",
				schemas.MaxCommandID),
			"source", text("URI of the sender."),
			"type", text("dev.loopbus, the command's kind and the version.", "examples",
				[]string{schemas.CloudEventType(schemas.CommandPrompt)}),
			"subject", text("The session.", "pattern", tokenPattern),
			"time", text("When it was sent, RFC 3339.", "format", "date-time"),
			"datacontenttype", text("Media type of data.", "enum", []string{schemas.ContentJSON, "text/plain"}),
			"data", obj("description", "The command's JSON; for prompt, steer and follow_up also its plain text."),
			"traceparent", text("W3C trace context."),
		))
}

func deadLetterHeaders() object {
	return obj("type", "object", "description", "The headers the message had, but for those of the server, and why "+
		"it is here.",
		"required", []string{schemas.HeaderDeadReason}, "properties", obj(
			schemas.HeaderDeadReason, text("Why it could not be processed."),
			schemas.HeaderDeadStream, text("The stream it was stored in."),
			schemas.HeaderDeadStreamSeq, text("Its sequence there."),
			schemas.HeaderDeadSubject, text("The subject it was stored under."),
			schemas.HeaderDeadDeliveries, text("How often it had been delivered."),
			schemas.HeaderDeadMsgID, text("The Nats-Msg-Id it had."),
			schemas.HeaderDeadSize, text("Its full size in bytes, where it was cut."),
		))
}
