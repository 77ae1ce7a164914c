// Package bus is a process's connection to NATS, and what is too small for a package of its own: timers, budgets,
// hooks, keys of models, and sending a command. Each larger concern has a package below:
//
//	embedded   a NATS server inside the process
//	streams    the streams and buckets, made and brought up to date
//	codec      CloudEvents and commands, in all forms that clients may send
//	inbox      the commands of the sessions, each partition with one reader; membership: which runners are live
//	dispatch   tool calls to workers, answers to callers, calls that nobody serves
//	registry   announced tools and profiles
//	live       updates, published and watched
//	models     a model behind the bus
//	queries    lists of sessions from an index, and answers about one
//	service    NATS micro services that answer at inboxes only
//	permissions  who may publish and subscribe what, as data and as NATS configuration
//	client     the Go client: prompt, steer, follow, approve; imports nothing of this module but schemas
//	pubsub     a Watermill Subscriber and Publisher on JetStream
//	natsio     what all of these share
//
// Only embedded links nats-server. Delivery is at least once everywhere (redelivery, deduplication by id): the receiver
// of a message has to know what it has done already. What cannot be processed ends in AGENT_DEAD with the reason, never
// silently and never in a loop. What starts goroutines has a Close, Shutdown or Run that waits for them.
package bus
