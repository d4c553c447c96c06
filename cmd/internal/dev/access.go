package dev

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// access says which web pages may use the gateway. Programs other than browsers send neither a name
// that isn't the gateway's nor an Origin, and aren't held up.
//
// A page of any site can have a browser send requests to this machine. Its Origin tells it from our
// own page and from frontends that are developed here. And it can have its own name lead to this
// machine (DNS rebinding), by which its requests become those of our own page; the name in Host
// tells that. An address in Host is no such name.
type access struct {
	hosts   []string // Names of the gateway, beside localhost; one that begins with a dot is any name that ends so.
	origins []string // ALLOWED_ORIGINS.
}

// refuse returns why a request is refused, or "".
func (a access) refuse(r *http.Request) string {
	host := r.Host
	if !a.named(hostname(host)) {
		return fmt.Sprintf("This gateway does not go by the name %q. If it should: --allow-host %s", host, hostname(host))
	}
	switch origins := r.Header.Values("Origin"); {
	case len(origins) == 0:
		return ""
	case len(origins) == 1 && a.origin(origins[0], host):
		return ""
	default:
		return fmt.Sprintf("Pages of %q may not call this gateway; see ALLOWED_ORIGINS.", strings.Join(origins, ", "))
	}
}

// named reports whether a name is one of the gateway's, or an address.
func (a access) named(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	return slices.ContainsFunc(a.hosts, func(host string) bool {
		host = strings.ToLower(host)
		return name == host || strings.HasPrefix(host, ".") && strings.HasSuffix(name, host)
	})
}

// origin reports whether pages of an origin may call: our own, those of this machine, and whatever
// ALLOWED_ORIGINS has.
func (a access) origin(origin, host string) bool {
	if slices.Contains(a.origins, "*") || slices.Contains(a.origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false // "null" for one, which is any file, and any page in a sandbox.
	}
	if strings.EqualFold(u.Host, host) {
		return true
	}
	name := u.Hostname()
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return a.named(name)
}

// behind is who may call what stands behind the gateway: the gateway, and whoever delivers events. They
// call it by its address, and from no page but those that the gateway lets through, which have its
// origin then. Without a gateway, pages are the origins that may call.
func behind(pages ...string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			foreign := func(origin string) bool { return !slices.Contains(pages, origin) }
			if !(access{}).named(hostname(r.Host)) || slices.ContainsFunc(r.Header.Values("Origin"), foreign) {
				problem(w, http.StatusForbidden, "Pages get here through the gateway alone: "+strings.Join(pages, ", "))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// hostname is the name or address in a Host header, without port and brackets.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}
