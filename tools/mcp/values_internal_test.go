package mcp

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// A message of a server has so many values at most, however it is cut; texts may have any number of commas, and a
// stream any number of events.
func TestValuesOfAMessageAreBounded(t *testing.T) {
	t.Parallel()
	tools := `{"tools":[` + strings.Repeat("{},", maxValues) + `{}]}`
	text := `{"text":"\",\\` + strings.Repeat(",[{", maxValues) + `"}`
	few := `{"tools":[` + strings.Repeat("{},", maxValues/4) + `{}]}`
	for name, c := range map[string]struct {
		events bool
		body   string
		bad    bool
	}{
		"tools":                            {false, tools, true},
		"tools on lines":                   {false, strings.ReplaceAll(tools, ",", ",\n\n"), true},
		"tools in an event":                {true, "event: x\ndata: " + tools + "\n\n", true},
		"tools in the lines of an event":   {true, "data: " + strings.ReplaceAll(tools, ",", ",\r\ndata: ") + "\n\n", true},
		"tools behind a quotation mark":    {true, ": \"\ndata: " + tools + "\n\n", true},
		"a text":                           {false, text, false},
		"a text in an event":               {true, "data: " + text + "\n\n", false},
		"few tools":                        {false, few, false},
		"many events":                      {true, strings.Repeat("data: "+few+"\n\n", 3), false},
		"many events with carriage return": {true, strings.Repeat("data: "+few+"\r\n\r\n", 3), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, in := range []io.Reader{strings.NewReader(c.body), iotest.HalfReader(strings.NewReader(c.body))} {
				got, err := io.ReadAll(&counted{ReadCloser: io.NopCloser(in), events: c.events})
				if (err != nil) != c.bad || err == nil && string(got) != c.body {
					t.Errorf("%d of %d bytes, %v", len(got), len(c.body), err)
				}
			}
		})
	}
}
