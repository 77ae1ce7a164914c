package service

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/loopbus/loopbus/schemas"
)

// describe answers a request about the service.
func (s *server) describe(m *nats.Msg, what any) {
	if !schemas.MayAnswer(m.Reply) {
		s.o.Logger.Debug("request not answered, reply subject is not an inbox", "subject", m.Subject)
		return
	}
	data, err := json.Marshal(what)
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		s.o.Logger.Debug("request not answered", "subject", m.Subject, "err", err)
	}
}

func (s *server) ping() any {
	return micro.Ping{ServiceIdentity: s.identity, Type: micro.PingResponseType}
}

func (s *server) info() any {
	info := micro.Info{ServiceIdentity: s.identity, Type: micro.InfoResponseType, Description: s.o.Description,
		Endpoints: []micro.EndpointInfo{}}
	for _, e := range s.endpoints {
		info.Endpoints = append(info.Endpoints, micro.EndpointInfo{Name: e.Name, Subject: e.Subject, QueueGroup: e.Queue})
	}
	return info
}

func (s *server) stats() any {
	stats := micro.Stats{ServiceIdentity: s.identity, Type: micro.StatsResponseType, Started: s.started,
		Endpoints: []*micro.EndpointStats{}}
	for _, e := range s.endpoints {
		e.mu.Lock()
		copied := e.stats
		e.mu.Unlock()
		stats.Endpoints = append(stats.Endpoints, &copied)
	}
	return stats
}

// count adds a request to the statistics; err is nil if it was answered.
func (e *endpoint) count(begun time.Time, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.NumRequests++
	e.stats.ProcessingTime += time.Since(begun)
	e.stats.AverageProcessingTime = e.stats.ProcessingTime / time.Duration(e.stats.NumRequests)
	if err != nil {
		e.stats.NumErrors++
		e.stats.LastError = oneLine(err.Error())
	}
}
