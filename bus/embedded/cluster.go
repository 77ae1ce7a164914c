package embedded

import (
	"fmt"
	"net/url"

	"github.com/nats-io/nats-server/v2/server"
)

// ClusterOptions make a server one of a cluster. Every server of a cluster has a name of its own, and the same Name and
// the same Routes here.
type ClusterOptions struct {
	// Name of the cluster; empty means that the server stands alone.
	Name string
	// Listen is the address for the other servers, host:port. The routes ask nobody for credentials.
	Listen string
	// Routes are where the servers of the cluster listen for each other, host:port. All of them have to be named, this one
	// too: how many there are is how many servers a new cluster waits for before it elects a leader.
	Routes []string
	// Advertise is the address, host:port, under which the other servers reach this one, if that is not
	// Listen.
	Advertise string
}

func (o ClusterOptions) enabled() bool { return o.Name != "" }

// apply puts the options into those of nats-server.
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
	to.Cluster = server.ClusterOpts{Name: o.Name, Host: host, Port: port, Advertise: o.Advertise}
	for _, address := range o.Routes {
		if _, _, err := splitAddress(address); err != nil {
			return fmt.Errorf("cluster %s: route: %w", o.Name, err)
		}
		to.Routes = append(to.Routes, &url.URL{Scheme: "nats", Host: address})
	}
	return nil
}
