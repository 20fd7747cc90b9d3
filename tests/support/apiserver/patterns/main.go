// Reads {"patterns": [...], "texts": [...]} and writes what Go's regexp says of each pattern: null
// where it refuses the pattern, otherwise one character per text, 1 where the pattern is found.
package main

import (
	"encoding/json"
	"os"
	"regexp"
)

func main() {
	var corpus struct {
		Patterns []string `json:"patterns"`
		Texts    []string `json:"texts"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&corpus); err != nil {
		panic(err)
	}
	verdicts := map[string]*string{}
	for _, pattern := range corpus.Patterns {
		verdicts[pattern] = nil
		compiled, err := regexp.Compile(pattern)
		if err != nil {
			continue
		}
		found := ""
		for _, text := range corpus.Texts {
			if compiled.MatchString(text) {
				found += "1"
			} else {
				found += "0"
			}
		}
		verdicts[pattern] = &found
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	if err := out.Encode(verdicts); err != nil {
		panic(err)
	}
}
