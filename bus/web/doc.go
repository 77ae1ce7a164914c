// Package web protects a runner's HTTP port. It decides which requests are admitted, and serves the console's files
// and, behind the same checks, the mounted handlers: the WebSocket to NATS (package natsws) and the bridges.
//
// Any page in a browser can send requests to 127.0.0.1, and behind this port may be an agent with a shell. So every
// request passes four checks, in this order:
//
//  1. Host: an IP address, localhost on a loopback port, or a name of [Options].Names. A foreign name that resolves to
//     this machine (DNS rebinding) is refused with status 421.
//  2. Origin: a page of this site, or none. Origin must be the requested host or one of Names; if the browser sends
//     Sec-Fetch-Site, it must be same-origin or none. Otherwise the status is 403. Following a link to the console from
//     another site is not a request made by that site's page, and passes.
//  3. Token, if [Options].Token is set: in the header Authorization: Bearer, as the cookie that it is exchanged for, or
//     once in the link /?token=…, which is answered with the cookie and a redirect to an address without the token.
//     Otherwise the status is 401.
//  4. Concurrency: beyond [Options].MaxRequests the status is 503. Requests without the token have a limit of their
//     own.
//
// The cookie is HttpOnly and SameSite=Lax, named after the port (browsers share cookies between the ports of a host),
// and contains a code derived from the token, not the token. This package never writes the token to a log or an
// answer.
package web
