// Package web guards a runner's HTTP port: it decides which requests come in, and serves the console's files
// and, behind the same checks, the handlers that are mounted: the WebSocket to NATS (package natsws) and the bridges.
//
// Any page in a browser can send requests to 127.0.0.1, and behind that port is an agent that may have a shell. So
// every request passes four checks, in this order:
//
//  1. Host. An IP address, localhost on a loopback port, or a name from [Options].Names. A name of somebody else's that
//     resolves to us (DNS rebinding) is refused with status 421.
//  2. Origin. A page of ours or none: Origin has to be the host that is asked, or one of Names; where a browser says
//     Sec-Fetch-Site, it has to be the same origin or nobody. Otherwise status 403. Following a link to the console
//     from elsewhere is not a request of the page it is on, and passes.
//  3. Token, if there is one ([Options].Token): as a header Authorization: Bearer, as the cookie that it is exchanged
//     for, or once in the link /?token=…, which is answered by the cookie and a redirect to an address without the
//     token. Otherwise status 401.
//  4. How many handlers are at work. One more than [Options].MaxRequests is answered with status 503.
//
// The cookie is HttpOnly and SameSite=Lax, named for the port (browsers share cookies among the ports of a host) and
// does not have the token in it, but a code that is made of it. Nothing here writes a token into a log or an answer.
package web
