package wire

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// A message of a server has so many bytes and values at most, however it is cut; texts may have any number of commas,
// and a stream any number of events.
func TestValuesOfAMessageAreBounded(t *testing.T) {
	t.Parallel()
	const most = 4 << 20
	tools := `{"tools":[` + strings.Repeat("{},", maxValues) + `{}]}`
	text := `{"text":"\",\\` + strings.Repeat(",[{", maxValues) + `"}`
	few := `{"tools":[` + strings.Repeat("{},", maxValues/4) + `{}]}`
	for name, c := range map[string]struct {
		framing Framing
		body    string
		bad     bool
	}{
		"tools":             {Whole, tools, true},
		"tools on lines":    {Whole, strings.ReplaceAll(tools, ",", ",\n\n"), true},
		"tools in an event": {Events, "event: x\ndata: " + tools + "\n\n", true},
		"tools in the lines of an event": {Events,
			"data: " + strings.ReplaceAll(tools, ",", ",\r\ndata: ") + "\n\n", true},
		"tools behind a quotation mark":    {Events, ": \"\ndata: " + tools + "\n\n", true},
		"a text":                           {Whole, text, false},
		"a text in an event":               {Events, "data: " + text + "\n\n", false},
		"few tools":                        {Whole, few, false},
		"many events":                      {Events, strings.Repeat("data: "+few+"\n\n", 3), false},
		"many events with carriage return": {Events, strings.Repeat("data: "+few+"\r\n\r\n", 3), false},
		"many lines":                       {Values, strings.Repeat(few+"\n", 6), false},
		"tools in a line":                  {Values, tools + "\n", true},
		"tools in a message of many lines": {Values, strings.ReplaceAll(tools, ",", ",\n\n"), true},
		"a text in a line":                 {Values, text + "\n", false},
		"blank lines":                      {Whole, strings.Repeat("\n", most+1), true},
		"blank lines between events":       {Events, strings.Repeat("\n", most+1), false},
		"a comment without an end":         {Events, strings.Repeat(":\n", most), true},
		"comments":                         {Events, strings.Repeat(":\n\n", most), false},
		"a line without an end":            {Values, strings.Repeat(" ", most+1), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, in := range []io.Reader{strings.NewReader(c.body), iotest.HalfReader(strings.NewReader(c.body))} {
				got, err := io.ReadAll(Counted(io.NopCloser(in), c.framing, most))
				if (err != nil) != c.bad || err == nil && string(got) != c.body {
					t.Errorf("%d of %d bytes, %v", len(got), len(c.body), err)
				}
			}
		})
	}
}
