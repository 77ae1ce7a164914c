package schemas

import "errors"

// ErrConflict is wrapped by an append that a session's log refused because another writer has extended the session.
// Whoever gets it has lost the session and must stop without another effect (DESIGN section 5). It is declared here
// because the event store reports it and the driver branches on it, and neither imports the other.
var ErrConflict = errors.New("session extended by another writer")
