package process

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports of servers are below those that the kernel gives to connections, so that a server which is down finds its port
// free when it comes back.
const lowPort, highPort = 16000, 30000

// FreePorts returns n ports of 127.0.0.1 that nobody uses.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		port := lowPort + rand.IntN(highPort-lowPort)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer l.Close() // all at the end, so that none is found twice
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("found %d free ports of %d", len(ports), n)
}
