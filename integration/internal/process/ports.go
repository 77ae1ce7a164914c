package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports of servers are below those that the kernel gives to connections, so that a server which is down finds its port
// free when it comes back.
const lowPort, highPort = 16000, 30000

// reserved are the sockets that keep ports for this process: UDP sockets of the same numbers, which no server of a test
// uses. Tests of other processes look for ports at the same time, before any server listens.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

// reserve keeps a port for this process until its end. It reports false if another process or test has it.
func reserve(address string) bool {
	socket, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.sockets = append(reserved.sockets, socket)
	return true
}

// FreePorts returns n ports of 127.0.0.1 that nobody uses. They are this caller's until the process ends.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		port := lowPort + rand.IntN(highPort-lowPort)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		defer l.Close() // all at the end, so that none is found twice
		if !reserve(address) {
			continue
		}
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("found %d free ports of %d", len(ports), n)
}
