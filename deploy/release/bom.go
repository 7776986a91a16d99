package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"time"
)

// component is a part of a bill of materials in the format CycloneDX.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	URL     string `json:"purl"`
}

// billOfMaterials lists the modules of a binary, and the Go release whose libraries it has, in the format CycloneDX. It
// says what the Go tool noted in the binary, and so also what was replaced.
func billOfMaterials(info *buildinfo.BuildInfo, date time.Time) ([]byte, error) {
	type tool struct {
		Components []component `json:"components"`
	}
	type metadata struct {
		Timestamp string    `json:"timestamp"`
		Tools     tool      `json:"tools"`
		Component component `json:"component"`
	}
	bom := struct {
		Schema     string      `json:"$schema"`
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
	}{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: metadata{
			Timestamp: date.UTC().Format(time.RFC3339),
			Tools:     tool{[]component{module("application", "go", info.GoVersion)}},
			Component: module("application", info.Main.Path, info.Main.Version),
		},
		Components: []component{module("library", "std", info.GoVersion)},
	}
	for _, m := range info.Deps {
		for m.Replace != nil {
			m = m.Replace
		}
		bom.Components = append(bom.Components, module("library", m.Path, m.Version))
	}
	return json.MarshalIndent(bom, "", "  ")
}

func module(kind, path, version string) component {
	url := fmt.Sprintf("pkg:golang/%s@%s", path, version)
	return component{Type: kind, Ref: kind + ":" + url, Name: path, Version: version, URL: url}
}
