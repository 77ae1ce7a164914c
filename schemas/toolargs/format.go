package toolargs

import (
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// formats are the formats that are checked; any other name is ignored.
var formats = map[string]func(string) bool{
	"date-time":                 isDateTime,
	"date":                      isDate,
	"time":                      isTime,
	"duration":                  durationForm.MatchString,
	"email":                     emailForm.MatchString,
	"idn-email":                 isIDNEmail,
	"hostname":                  func(s string) bool { return isHostname(s, false) },
	"idn-hostname":              func(s string) bool { return isHostname(s, true) },
	"ipv4":                      func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is4() },
	"ipv6":                      isIPv6,
	"uri":                       uriForm.MatchString,
	"uri-reference":             uriReferenceForm.MatchString,
	"iri":                       func(s string) bool { return isIRIReference(s) && isURL(s) },
	"iri-reference":             isIRIReference,
	"url":                       isURL,
	"uri-template":              uriTemplateForm.MatchString,
	"json-pointer":              pointerForm.MatchString,
	"json-pointer-uri-fragment": isPointerFragment,
	"relative-json-pointer":     relativePointerForm.MatchString,
	"regex":                     func(s string) bool { _, err := compilePattern(s, maxPatternTime); return err == nil },
	"uuid":                      uuidForm.MatchString,
}

const (
	label     = `[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?`
	atom      = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
	octet     = `(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])`
	escaped   = `%[0-9a-fA-F]{2}`
	pathChar  = `(?:[-a-zA-Z0-9._~!$&'()*+,;=:@]|` + escaped + `)`
	authority = `(?:(?:[-a-zA-Z0-9._~!$&'()*+,;=:]|` + escaped + `)*@)?` +
		`(?:\[(?:[0-9a-fA-F:.]+|v[0-9a-fA-F]+\.[-a-zA-Z0-9._~!$&'()*+,;=:]+)\]|(?:[-a-zA-Z0-9._~!$&'()*+,;=]|` + escaped +
		`)*)(?::[0-9]*)?`
	tail   = `(?:\?(?:` + pathChar + `|[/?])*)?(?:#(?:` + pathChar + `|[/?])*)?`
	rooted = `//` + authority + `(?:/` + pathChar + `*)*|/(?:` + pathChar + `+(?:/` + pathChar + `*)*)?`

	clock    = `(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))`
	variable = `(?:[a-zA-Z0-9_]|` + escaped + `)+(?:\.(?:[a-zA-Z0-9_]|` + escaped + `)+)*(?::[1-9][0-9]{0,3}|\*)?`
)

var (
	durationForm = regexp.MustCompile(`^P(?:(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)` + clock +
		`?|` + clock + `|[0-9]+W)$`)
	emailForm = regexp.MustCompile(`^(?:` + atom + `(?:\.` + atom + `)*|"(?:[^"\\]|\\[\x20-\x7e])*")@(?:` + label +
		`(?:\.` + label + `)*|` +
		`\[(?:(?i:IPv6:)[a-fA-F0-9:]+|` + octet + `(?:\.` + octet + `){3})\])$`)
	uuidForm            = regexp.MustCompile(`^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$`)
	pointerForm         = regexp.MustCompile(`^(?:/(?:[^~/]|~0|~1)*)*$`)
	relativePointerForm = regexp.MustCompile(`^(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~0|~1)*)*)$`)
	uriForm             = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:(?:` + rooted + `|` + pathChar + `+(?:/` +
		pathChar + `*)*)?` + tail + `$`)
	uriReferenceForm = regexp.MustCompile(`^(?:[a-zA-Z][a-zA-Z0-9+.-]*:(?:` + rooted + `|` + pathChar + `+(?:/` +
		pathChar + `*)*)?|` +
		rooted + `|(?:[-a-zA-Z0-9._~!$&'()*+,;=@]|` + escaped + `)+(?:/` + pathChar + `*)*)?` + tail + `$`)
	uriTemplateForm = regexp.MustCompile(`^(?:(?:[^\x00-\x20"<>%\\^` + "`" + `{|}\x7f]|` + escaped +
		`)|\{[+#./;?&=,!@|]?` + variable + `(?:,` + variable + `)*\})*$`)
	labelForm = regexp.MustCompile(`^` + label + `$`)
	timeForm  = regexp.MustCompile(`^([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?` +
		`(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))$`)
	dateForm       = regexp.MustCompile(`^([0-9]{4})-([0-9]{2})-([0-9]{2})$`)
	annotationForm = regexp.MustCompile(`^(?:\[!?[A-Za-z0-9._/+:=-]+\])*$`)
)

// isDateTime accepts RFC 3339, followed by annotations in brackets (RFC 9557).
func isDateTime(s string) bool {
	if i := strings.IndexByte(s, '['); i >= 0 {
		if !annotationForm.MatchString(s[i:]) {
			return false
		}
		s = s[:i]
	}
	i := strings.IndexAny(s, "Tt")
	return i >= 0 && isDate(s[:i]) && isTime(s[i+1:])
}

func isDate(s string) bool {
	m := dateForm.FindStringSubmatch(s)
	if m == nil {
		return false
	}
	year, month, day := number(m[1]), number(m[2]), number(m[3])
	if month < 1 || month > 12 || day < 1 {
		return false
	}
	days := [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		days = 29
	}
	return day <= days
}

// isTime requires a zone. A leap second is valid only at the end of a day in UTC.
func isTime(s string) bool {
	m := timeForm.FindStringSubmatch(s)
	if m == nil {
		return false
	}
	hour, minute, second := number(m[1]), number(m[2]), number(m[3])
	zoneHour, zoneMinute := number(m[5]), number(m[6])
	if hour > 23 || minute > 59 || second > 60 || zoneHour > 23 || zoneMinute > 59 {
		return false
	}
	offset := zoneHour*60 + zoneMinute
	if m[4] == "-" {
		offset = -offset
	}
	const day = 24 * 60
	return second < 60 || (hour*60+minute-offset+day)%day == day-1
}

// number parses digits that have been checked; no digits are 0.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

func isIPv6(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is6() && a.Zone() == ""
}

// isHostname checks labels and lengths. If international is set it accepts letters of any script, without the tables of
// IDNA.
func isHostname(s string, international bool) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	if international {
		s = strings.NewReplacer("\u3002", ".", "\uff0e", ".", "\uff61", ".").Replace(s)
	}
	for _, l := range strings.Split(s, ".") {
		if len(l) > 63 || len(l) >= 4 && l[2:4] == "--" && !strings.EqualFold(l[:4], "xn--") {
			return false
		}
		if labelForm.MatchString(l) {
			continue
		}
		if !international || !isInternationalLabel(l) {
			return false
		}
	}
	return true
}

func isInternationalLabel(l string) bool {
	ok := func(r rune) bool { return r == '-' || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) }
	return l != "" && !strings.HasPrefix(l, "-") && !strings.HasSuffix(l, "-") &&
		strings.IndexFunc(l, func(r rune) bool { return !ok(r) }) < 0
}

// isIDNEmail allows any script on both sides of the at sign.
func isIDNEmail(s string) bool {
	i := strings.LastIndexByte(s, '@')
	if i < 0 {
		return false
	}
	local := strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return 'x'
		}
		return r
	}, s[:i])
	return emailForm.MatchString(local+"@x") && isHostname(s[i+1:], true)
}

// isURL approximates the WHATWG parser: it accepts an absolute URL, with a host if its scheme needs one.
func isURL(s string) bool {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil || u.Scheme == "" {
		return false
	}
	switch u.Scheme {
	case "http", "https", "ws", "wss", "ftp":
		port, err := strconv.Atoi("0" + u.Port())
		return (u.Hostname() != "" || u.Opaque != "") && err == nil && port <= 65535
	}
	return true
}

func isIRIReference(s string) bool {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || strings.ContainsRune("<>^`{|}\\\"", r) }) {
		return false
	}
	_, err := url.Parse(s)
	return err == nil
}

func isPointerFragment(s string) bool {
	decoded, err := url.PathUnescape(s)
	return err == nil && strings.HasPrefix(decoded, "#") && pointerForm.MatchString(decoded[1:])
}
