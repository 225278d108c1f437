// Package nats carries the requests of a fleet over NATS: [Embed] starts a broker in the
// coordinator's process, [Connect] uses brokers that run already, and [Dial] is a worker's
// end of both.
//
// # Model
//
// A worker asks on PREFIX.WORKER.VERB and hears the answer in an inbox below
// _INBOX.PREFIX.WORKER; the coordinator listens to PREFIX.*.*. Every request carries the
// worker's secret, which the coordinator's end compares with the hash in the roster. Bodies
// above 1 KiB are compressed. This is core NATS: a broker stores nothing, so that nothing is
// lost with it. A link that waits asks after its request every second, and so learns of a loss
// on the way, or of a new coordinator. Whoever made the request repeats it then.
//
// # What the broker has to enforce
//
// An embedded broker lets a worker publish its own requests and read its own inbox, and
// nothing else. On other brokers the workers share the credential that the operator gives
// them. Let it publish PREFIX.*.* and subscribe to _INBOX.PREFIX.>, and let the
// coordinator's publish _INBOX.PREFIX.> and PREFIX.@coordinator, and subscribe to PREFIX.*.*,
// PREFIX.@coordinator and _INBOX.PREFIX.@coordinator.>. A worker that may subscribe to PREFIX.>
// reads the secrets of the others. Workers that share a credential can read each other's
// answers if they try.
package nats
