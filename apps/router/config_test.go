package router

import (
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
)

func requestOf(body string) app.Request { return app.Request{Body: []byte(body)} }

func TestConfig(t *testing.T) {
	w := newWorld(t, 1)
	w.put(configuration)
	if status, text := w.call("GET", "7", ""); status != 0 || text != configuration {
		t.Errorf("%d %s, want %s", status, text, configuration)
	}
	if status, _ := w.call("GET", "8", ""); status != 404 {
		t.Errorf("a switch without a configuration: %d", status)
	}
	if status, text := w.call("PUT", "x", configuration); status != 400 || !strings.Contains(text, `switch "x": use`) {
		t.Errorf("%d %s", status, text)
	}
	for change, want := range map[string]string{
		`"ports":[1,2]=>"ports":[0]`:                         `interface "lan": port 0: use`,
		`"ports":[3]=>"ports":[2]`:                           `interface "wan": port 2: use`,
		`"mac":"02:01:00:00:00:01"=>"mac":"x"`:               `mac "x": use`,
		`"mac":"02:01:00:00:00:01"=>"mac":"01::"`:            `mac "01::": use`,
		`"mac":"02:01:00:00:00:01",=>`:                       `interface "lan": there is no mac: use`,
		`"10.0.2.1/24"=>"10.0.1.9/24"`:                       `interface "wan": address 10.0.1.9/24: use`,
		`"10.0.2.1/24"=>"224.0.0.1/24"`:                      `address 224.0.0.1/24`,
		`"10.0.2.1/24"=>"10.0.1.9/16"`:                       `"wan": address 10.0.1.9/16 is in the smaller subnet of 10.0.1.1: use`,
		`"10.0.2.1/24"=>"10.0.2.1"`:                          "not valid",
		`"via":"10.0.2.2"=>"via":"10.0.3.2"`:                 `route to 0.0.0.0/0 via 10.0.3.2: use`,
		`"via":"10.0.2.2"=>"via":"10.0.2.1"`:                 `via 10.0.2.1: use`,
		`"via":"10.0.2.2"=>"via":"2001:db8:2::2"`:            `use a new prefix`,
		`"0.0.0.0/0"=>"10.0.1.0/24"`:                         `use a new prefix`,
		`"0.0.0.0/0"=>"10.9.1.1/8"`:                          `use a new prefix`,
		`"name":"lan"=>"nam":"lan"`:                          `unknown field "nam"`,
		`"ports":[1,2]=>"ports":[` + numbers(MaxPorts) + "]": "more than 64 ports",
	} {
		from, to, _ := strings.Cut(change, "=>")
		body := strings.Replace(configuration, from, to, 1)
		if status, text := w.call("PUT", "7", body); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %q", change, status, text, want)
		}
	}
	if _, text := w.call("GET", "7", ""); text != configuration {
		t.Errorf("a configuration that was refused has changed it to %s", text)
	}
}

// numbers lists some ports that the other interface does not have.
func numbers(n int) string {
	var list []string
	for i := range n {
		list = append(list, app.Port(i+10).String())
	}
	return strings.Join(list, ",")
}
