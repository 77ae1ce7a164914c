// Package bus contains a process's connection to NATS, and its small users: timers, budgets, hooks, keys of providers,
// and sending a command. Each larger concern has a package below:
//
//	embedded   a NATS server inside the process
//	streams    creates and upgrades the streams and buckets
//	codec      CloudEvents and commands, in all forms that clients may send
//	inbox      delivers the commands of the sessions; below it are reader (the rules, without NATS), membership and
//	           admission
//	dispatch   sends tool calls to workers and answers to callers; answers calls that no worker serves
//	registry   follows announced tools, resources of workspaces, and profiles
//	live       publishes updates
//	models     a model that is called over the bus, client and server
//	queries    lists sessions from an index, and answers queries about one session
//	service    NATS micro services that reply to inboxes only
//	permissions  who may publish and subscribe to which subjects, as data and as NATS configuration
//	client     the Go client: prompt, steer, follow, approve; imports only schemas and leaf packages
//	retention  deletes sessions, on command and by rule; archives
//	sweep      removes stray messages, which no client wrote on purpose, from the streams
//	web        who may use the HTTP port
//	natsws, upgrade  NATS over WebSocket on the HTTP port
//	bridge     clients of the bus that serve other protocols
//	pubsub     a Watermill Subscriber and Publisher on JetStream
//	dial       credentials, TLS and contexts of a connection
//	labels     bounds the values of metric labels
//	natsio     functions on NATS that the other packages share
//
// Only embedded links nats-server. Delivery is at least once everywhere, with redelivery and deduplication by id, so
// the receiver of a message must know which messages it has processed. A message that cannot be processed ends in
// AGENT_DEAD with the reason; it is never dropped silently and never redelivered for ever. A type that starts
// goroutines has a method Close, Shutdown or Run that waits for them.
package bus
