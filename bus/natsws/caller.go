package natsws

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"strings"
)

// of returns the caller of a client that the server has admitted, at an address. The user in the CONNECT counts if the
// server has checked it, else the address.
func (c *carrier) of(remote string) string {
	if user, _ := c.caller.Load().(string); user != "" && c.server.info.AuthRequired {
		return user
	}
	return addressOf(remote)
}

// credentials are those of a CONNECT that name a user, and the token, which names none.
type credentials struct {
	User  string `json:"user"`
	Token string `json:"auth_token"`
	Nkey  string `json:"nkey"`
	JWT   string `json:"jwt"`
}

// callerOf returns who sends a CONNECT: its user, provided that a server that requires credentials admits it. "" if the
// line does not tell. With credentials of several kinds the server looks at one of them, and which is not known here:
// the others may be invented, so they count for nobody.
func callerOf(line []byte) string {
	var c credentials
	data, ok := bytes.CutPrefix(line, []byte("CONNECT "))
	if !ok || json.Unmarshal(data, &c) != nil || c.Token != "" {
		return ""
	}
	key := c.Nkey
	if c.JWT != "" {
		subject := subjectOf(c.JWT)
		if key != "" && key != subject { // clients send both for one user
			return ""
		}
		key = subject
	}
	switch {
	case key != "" && c.User == "":
		return "key " + key
	case c.JWT == "" && key == "" && c.User != "":
		return "user " + c.User
	}
	return ""
}

// subjectOf returns the subject of a JWT, the nkey of its user; "" if it has none.
func subjectOf(jwt string) string {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return ""
	}
	var claims struct {
		Sub string `json:"sub"`
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(data, &claims) != nil {
		return ""
	}
	return claims.Sub
}

// addressOf names the caller at an address. Addresses of IPv6 with the same first 64 bits are one: a machine has many.
func addressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return "address " + remote
	}
	ip, bits := at.Addr().Unmap(), 64
	if ip.Is4() {
		bits = 32
	}
	network, _ := ip.Prefix(bits) // no error: there are so many bits
	return "address " + network.String()
}
