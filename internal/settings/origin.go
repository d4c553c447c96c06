package settings

import (
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// wantOrigin is what ALLOWED_ORIGINS takes.
const wantOrigin = "an origin such as https://app.example, without a path, or *"

// hostName is the name of a server, as browsers send it.
var hostName = regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?$`)

// asBrowsers maps names as browsers do, which take more than a registry: my_app, and two hyphens anywhere.
var asBrowsers = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false), idna.CheckHyphens(false))

// Origin is an origin as browsers write it: in lower case, in ASCII, without the port that its scheme has anyway. For
// what no page ever sends it returns what is wanted instead.
func Origin(text string) (origin, want string) {
	text = strings.TrimSpace(text)
	if text == "*" {
		return text, ""
	}
	u, err := url.Parse(text)
	switch _, rest, _ := strings.Cut(text, "://"); {
	case strings.Contains(text, "*"):
		return "", "whole names, or * alone: others may own what a pattern matches. A preview channel keeps its name: add that"
	case err != nil || u.Scheme == "" || u.Host == "" || strings.ContainsAny(rest, `/\?#@%`):
		return "", wantOrigin
	case u.Scheme != "http" && u.Scheme != "https": // such as capacitor://localhost: its host is any text
		return u.Scheme + "://" + u.Host, ""
	}
	host, port := u.Hostname(), u.Port()
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" {
		if host = addr.String(); addr.Is6() {
			host = "[" + host + "]"
		}
	} else if host, err = asBrowsers.ToASCII(host); err != nil || !hostName.MatchString(host) || numeric(host) {
		return "", wantOrigin
	}
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && err != nil {
		return "", wantOrigin
	} else if port != "" && n != map[string]uint64{"http": 80, "https": 443}[u.Scheme] {
		host += ":" + strconv.FormatUint(n, 10)
	}
	return u.Scheme + "://" + host, ""
}

// numeric reports whether browsers take a name for an address, by its end.
func numeric(host string) bool {
	host = strings.TrimSuffix(host, ".")
	_, err := strconv.ParseUint(host[strings.LastIndexByte(host, '.')+1:], 0, 64)
	return err == nil
}
