// Package bus is a process's connection to NATS, and what is too small for a package of its own: timers, budgets,
// hooks, keys of models, and sending a command. Each larger concern has a package below:
//
//	embedded   a NATS server inside the process
//	streams    the streams and buckets, made and brought up to date
//	codec      CloudEvents and commands, in all forms that clients may send
//	inbox      the commands of the sessions; below it reader, the rules without NATS, membership and admission
//	dispatch   tool calls to workers, answers to callers, calls that nobody serves
//	registry   announced tools and profiles
//	live       updates, published
//	models     a model behind the bus
//	queries    lists of sessions from an index, and answers about one
//	service    NATS micro services that answer at inboxes only
//	permissions  who may publish and subscribe what, as data and as NATS configuration
//	client     the Go client: prompt, steer, follow, approve; imports schemas and leaves only
//	retention  deleting sessions, on command and by rule; archives
//	web        who may use the HTTP port; natsws and upgrade: NATS by WebSocket there
//	bridge     clients of the bus that serve other protocols
//	pubsub     a Watermill Subscriber and Publisher on JetStream
//	dial       credentials, TLS and contexts of a connection
//	labels     bounds for the labels of metrics
//	natsio     what all of these share
//
// Only embedded links nats-server. Delivery is at least once everywhere (redelivery, deduplication by id): the receiver
// of a message has to know what it has done already. What cannot be processed ends in AGENT_DEAD with the reason, never
// silently and never in a loop. What starts goroutines has a Close, Shutdown or Run that waits for them.
package bus
