// Package loopback tells the requests of this machine from those that a foreign web page makes
// through a browser on it.
//
// A page can call a server on its reader's own machine in two ways. It can send requests across
// origins: the browser says so in the header Origin, and lets simple POSTs through without asking
// the server first. And it can point a name of its own at 127.0.0.1 (DNS rebinding), so that the
// server is its own origin: the header Host gives it away.
package loopback

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Host reports whether a request calls the server by a name that no foreign page can have:
// localhost, a name below it, an IP address, or one of the names given. A request without a Host
// comes from no browser.
func Host(r *http.Request, names ...string) bool {
	return r.Host == "" || local(r.Host, names)
}

// Origin reports whether a request comes from a page of this machine, or from no page at all. The
// origin of a file or a sandbox ("null") is foreign: any page can have it.
func Origin(r *http.Request, names ...string) bool {
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !localPage(u.Host, names) {
			return false
		}
	}
	return true
}

// local reports whether a host, with or without a port, is a name of this machine, or an IP
// address, which needs no name.
func local(host string, names []string) bool {
	name := hostname(host)
	return net.ParseIP(name) != nil || named(name, names)
}

// localPage reports whether a page's host is this machine. Of IP addresses only loopback ones are.
func localPage(host string, names []string) bool {
	name := hostname(host)
	if ip := net.ParseIP(name); ip != nil {
		return ip.IsLoopback() || slices.Contains(names, name)
	}
	return named(name, names)
}

func named(name string, names []string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost") ||
		slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// hostname cuts the port off, the brackets of an IPv6 address, and a final dot.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
