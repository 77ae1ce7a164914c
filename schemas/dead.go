package schemas

// Headers of a dead letter: why it was given up, the stream, sequence and subject it was stored under, how often it had
// been delivered, the Nats-Msg-Id it had, and its full size in bytes where it had to be cut to fit. The letter keeps
// its other headers, but for those beginning with Nats-, and its payload.
const (
	HeaderDeadReason     = "Loopbus-Dead-Reason"
	HeaderDeadStream     = "Loopbus-Dead-Stream"
	HeaderDeadStreamSeq  = "Loopbus-Dead-Stream-Seq"
	HeaderDeadSubject    = "Loopbus-Dead-Subject"
	HeaderDeadDeliveries = "Loopbus-Dead-Deliveries"
	HeaderDeadMsgID      = "Loopbus-Dead-Msg-Id"
	HeaderDeadSize       = "Loopbus-Dead-Size"
)

// HeaderDeletion marks a message on the subject of a log as the fence of the deletion with this id. The session's
// writer has lost the session.
const HeaderDeletion = "Loopbus-Deletion"

// HeaderRestore is in the messages of a log that a restore has stored; its value is the id of the restore. The session
// does not open before the restore is complete. The hash of a message does not cover the header.
const HeaderRestore = "Restored-By"

// NoSession is the session token in a dead letter's subject if there is no legal session id.
const NoSession = "_"
