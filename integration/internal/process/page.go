package process

import (
	"io"
	"net/http"
	"time"
)

// pageTimeout is how long a program on a busy machine may take to answer.
const pageTimeout = 10 * time.Second

// Page returns the status and the body of a page that a program serves. If no answer arrives in time, the status is 0
// and the body is the reason. Page keeps no connection open that a program would wait for at its end.
func Page(url string) (status int, body string) {
	client := http.Client{Timeout: pageTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(data)
}
