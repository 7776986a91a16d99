package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
)

type object = map[string]any

// Messages of protobuf itself, which have a JSON of their own.
const (
	timestamp = protoreflect.FullName("google.protobuf.Timestamp")
	empty     = protoreflect.FullName("google.protobuf.Empty")
)

// openAPI describes the unary methods as requests with POST, whose bodies are JSON.
func openAPI(files []protoreflect.FileDescriptor) ([]byte, error) {
	paths, schemas := object{}, object{
		"Error": object{"type": "object", "description": "What a controller answers instead, with a status from 400.",
			"properties": object{"code": object{"type": "string"}, "message": object{"type": "string"},
				"details": object{"type": "array", "items": object{"type": "object"}}}}}
	for _, f := range files {
		for i := range f.Messages().Len() {
			m := f.Messages().Get(i)
			schemas[string(m.Name())] = messageSchema(m)
		}
		for i := range f.Enums().Len() {
			e := f.Enums().Get(i)
			var names []string
			for k := range e.Values().Len() {
				names = append(names, string(e.Values().Get(k).Name()))
			}
			schemas[string(e.Name())] = described(object{"type": "string", "enum": names}, e)
		}
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for k := range s.Methods().Len() {
				m := s.Methods().Get(k)
				if !m.IsStreamingServer() && !m.IsStreamingClient() {
					paths[fmt.Sprintf("/%s/%s", s.FullName(), m.Name())] = object{"post": operation(s, m)}
				}
			}
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(object{
		"openapi": "3.1.0",
		"info": object{"title": "Holdfast", "version": "v1",
			"description": "The API of a controller. Streams are not described here: see docs/api.md."},
		"paths": paths,
		"components": object{"schemas": schemas, "securitySchemes": object{
			"token": object{"type": "http", "scheme": "bearer"}}},
		"security": []object{{}, {"token": []string{}}},
	})
	return out.Bytes(), err
}

func operation(s protoreflect.ServiceDescriptor, m protoreflect.MethodDescriptor) object {
	content := func(schema object) object {
		return object{"application/json": object{"schema": schema}}
	}
	return described(object{
		"operationId": string(m.Name()), "tags": []string{string(s.Name())},
		"requestBody": object{"required": true, "content": content(reference(m.Input()))},
		"responses": object{
			"200": object{"description": "The answer.", "content": content(reference(m.Output()))},
			"default": object{"description": "An error.",
				"content": content(object{"$ref": "#/components/schemas/Error"})},
		},
	}, m)
}

func described(o object, d protoreflect.Descriptor) object {
	if text := comment(d); text != "" {
		o["description"] = text
	}
	return o
}

func messageSchema(m protoreflect.MessageDescriptor) object {
	properties := object{}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		schema := fieldSchema(f)
		if f.IsList() {
			schema = object{"type": "array", "items": schema}
		}
		properties[string(f.Name())] = described(schema, f)
	}
	return described(object{"type": "object", "properties": properties}, m)
}

func reference(m protoreflect.MessageDescriptor) object {
	switch m.FullName() {
	case timestamp:
		return object{"type": "string", "format": "date-time"}
	case empty:
		return object{"type": "object"}
	}
	return object{"$ref": "#/components/schemas/" + string(m.Name())}
}

func fieldSchema(f protoreflect.FieldDescriptor) object {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return reference(f.Message())
	case protoreflect.EnumKind:
		return object{"$ref": "#/components/schemas/" + string(f.Enum().Name())}
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.DoubleKind:
		return object{"type": "number"}
	case protoreflect.Int64Kind, protoreflect.Uint64Kind: // JavaScript has no such numbers
		return object{"type": "string", "format": f.Kind().String()}
	case protoreflect.Int32Kind, protoreflect.Uint32Kind:
		return object{"type": "integer", "format": f.Kind().String()}
	case protoreflect.BytesKind:
		return object{"type": "string", "contentEncoding": "base64"}
	}
	return object{"type": "string"}
}
