package mcp

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
		framing framing
		body    string
		bad     bool
	}{
		"tools":             {framedWhole, tools, true},
		"tools on lines":    {framedWhole, strings.ReplaceAll(tools, ",", ",\n\n"), true},
		"tools in an event": {framedEvents, "event: x\ndata: " + tools + "\n\n", true},
		"tools in the lines of an event": {framedEvents,
			"data: " + strings.ReplaceAll(tools, ",", ",\r\ndata: ") + "\n\n", true},
		"tools behind a quotation mark":    {framedEvents, ": \"\ndata: " + tools + "\n\n", true},
		"a text":                           {framedWhole, text, false},
		"a text in an event":               {framedEvents, "data: " + text + "\n\n", false},
		"few tools":                        {framedWhole, few, false},
		"many events":                      {framedEvents, strings.Repeat("data: "+few+"\n\n", 3), false},
		"many events with carriage return": {framedEvents, strings.Repeat("data: "+few+"\r\n\r\n", 3), false},
		"many lines":                       {framedValues, strings.Repeat(few+"\n", 6), false},
		"tools in a line":                  {framedValues, tools + "\n", true},
		"tools in a message of many lines": {framedValues, strings.ReplaceAll(tools, ",", ",\n\n"), true},
		"a text in a line":                 {framedValues, text + "\n", false},
		"blank lines":                      {framedWhole, strings.Repeat("\n", most+1), true},
		"blank lines between events":       {framedEvents, strings.Repeat("\n", most+1), false},
		"a comment without an end":         {framedEvents, strings.Repeat(":\n", most), true},
		"comments":                         {framedEvents, strings.Repeat(":\n\n", most), false},
		"a line without an end":            {framedValues, strings.Repeat(" ", most+1), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, in := range []io.Reader{strings.NewReader(c.body), iotest.HalfReader(strings.NewReader(c.body))} {
				got, err := io.ReadAll(&counted{ReadCloser: io.NopCloser(in), framing: c.framing, most: most})
				if (err != nil) != c.bad || err == nil && string(got) != c.body {
					t.Errorf("%d of %d bytes, %v", len(got), len(c.body), err)
				}
			}
		})
	}
}
