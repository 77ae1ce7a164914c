package embedded

import (
	"fmt"
	"net/url"

	"github.com/nats-io/nats-server/v2/server"
)

// ClusterOptions make a server a member of a cluster. Every member has its own server name, and the same Name and
// Routes here. Its routes deny what [Untraced] returns.
type ClusterOptions struct {
	// Name of the cluster; empty for a server without a cluster.
	Name string
	// Listen is the address for the other servers, host:port. Routes need no credentials.
	Listen string
	// Routes are the addresses, host:port, of all servers of the cluster, this one included. A new cluster waits for that
	// many servers before it elects a leader.
	Routes []string
	// Advertise is the address, host:port, at which the other servers reach this one, if it differs from Listen.
	Advertise string
}

// Untraced returns the subjects that the import permissions of a cluster's routes have to deny: to these no message
// from another server is traced then. A server checks neither who has sent such a message nor for what it asks
// (docs/security.md#clusters). Requests of clients pass: each server announces its interest in all of the API at once,
// and does not check messages. The caller owns the slice.
func Untraced() []string {
	return []string{"$JS.API.STREAM.>", "$JS.API.CONSUMER.LEADER.>", "$JS.API.CONSUMER.PAUSE.>",
		"$JS.API.CONSUMER.RESET.>", "$JS.API.CONSUMER.UNPIN.>"}
}

func (o ClusterOptions) enabled() bool { return o.Name != "" }

// apply sets the options of nats-server.
func (o ClusterOptions) apply(to *server.Options) error {
	if !o.enabled() {
		return nil
	}
	host, port, err := splitAddress(o.Listen)
	if err != nil {
		return fmt.Errorf("cluster %s: %w", o.Name, err)
	}
	if len(o.Routes) < 2 {
		return fmt.Errorf("cluster %s: %d routes given, the servers of a cluster are two at least", o.Name, len(o.Routes))
	}
	to.Cluster = server.ClusterOpts{Name: o.Name, Host: host, Port: port, Advertise: o.Advertise,
		Permissions: &server.RoutePermissions{Import: &server.SubjectPermission{Deny: Untraced()}}}
	for _, address := range o.Routes {
		if _, _, err := splitAddress(address); err != nil {
			return fmt.Errorf("cluster %s: route: %w", o.Name, err)
		}
		to.Routes = append(to.Routes, &url.URL{Scheme: "nats", Host: address})
	}
	return nil
}
