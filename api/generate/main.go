// Command generate writes what is made from the files in api/holdfast/v1: the messages and services in Go, the
// description for OpenAPI, and the types of the client in Python and of the dashboard. It runs in the folder api, by go
// generate.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const module = "github.com/holdfast-sdn/holdfast/api"

func main() {
	files, err := generated(context.Background(), ".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
	for name, text := range files {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "generate:", err)
			os.Exit(1)
		}
	}
}

// generated returns the files that are made, by their path from the folder api.
func generated(ctx context.Context, folder string) (map[string][]byte, error) {
	files, err := compile(ctx, folder)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{}
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(f))
	}
	for _, f := range files {
		add(f)
		request.FileToGenerate = append(request.FileToGenerate, f.Path())
	}
	out := map[string][]byte{}
	for _, plugin := range []struct{ name, parameter string }{
		{"protoc-gen-go", "module=" + module},
		{"protoc-gen-connect-go", "simple=true,package_suffix,module=" + module},
	} {
		request.Parameter = proto.String(plugin.parameter)
		if err := run(ctx, plugin.name, request, out); err != nil {
			return nil, err
		}
	}
	if out["openapi.json"], err = openAPI(files); err != nil {
		return nil, err
	}
	out["../python/holdfast/api_types.py"] = python(files)
	out["../controller/dashboard/web/src/api.ts"] = typescript(files)
	return out, nil
}

// compile reads the files of the interface, with their comments.
func compile(ctx context.Context, folder string) ([]protoreflect.FileDescriptor, error) {
	names, err := filepath.Glob(filepath.Join(folder, "holdfast/v1/*.proto"))
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		names[i] = path.Join("holdfast/v1", filepath.Base(name))
	}
	slices.Sort(names)
	c := protocompile.Compiler{SourceInfoMode: protocompile.SourceInfoStandard,
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{folder}})}
	compiled, err := c.Compile(ctx, names...)
	var files []protoreflect.FileDescriptor
	for _, f := range compiled {
		files = append(files, f)
	}
	return files, err
}

// run runs a plugin of protoc, and adds the files that it makes.
func run(ctx context.Context, plugin string, request *pluginpb.CodeGeneratorRequest, to map[string][]byte) error {
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go tool %s: %w", plugin, err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return fmt.Errorf("go tool %s: %w", plugin, err)
	}
	if response.Error != nil {
		return fmt.Errorf("go tool %s: %s", plugin, response.GetError())
	}
	for _, f := range response.File {
		to[f.GetName()] = []byte(f.GetContent())
	}
	return nil
}

// comment is what a file says of something: before it, or behind it.
func comment(d protoreflect.Descriptor) string {
	at := d.ParentFile().SourceLocations().ByDescriptor(d)
	text := at.LeadingComments + at.TrailingComments
	return string(bytes.Join(bytes.Fields([]byte(text)), []byte(" ")))
}

// readsOnly reports whether a method has no side effects.
func readsOnly(m protoreflect.MethodDescriptor) bool {
	o, _ := m.Options().(*descriptorpb.MethodOptions)
	return o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}
