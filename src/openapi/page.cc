#include "openapi/page.h"

namespace coxswain::openapi {

const std::string_view kPage = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Coxswain: the API</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 1em auto; padding: 0 1em; color-scheme: light dark }
details { border: 1px solid #8886; border-radius: 4px; margin: .3em 0; padding: .3em .6em }
summary { cursor: pointer }
code, pre, textarea { font: 13px/1.45 ui-monospace, monospace }
textarea, input { width: 100%; box-sizing: border-box }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #8881; padding: .5em; max-height: 30em; overflow: auto }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; vertical-align: top; padding: .1em .6em .1em 0; border-top: 1px solid #8884 }
.method { display: inline-block; width: 4.5em; font-weight: bold }
</style>
</head>
<body>
<h1>Coxswain</h1>
<p id="about">The page needs JavaScript.</p>
<label>API key, if the server asks for one: it stays in this page
<input id="key" type="password" autocomplete="off"></label>
<main id="list"></main>
<script>
"use strict";
const base = new URL(".", location.href);
const list = document.getElementById("list");

function add(parent, tag, text) {
  const out = document.createElement(tag);
  if (text !== undefined) out.textContent = text;
  parent.append(out);
  return out;
}

const bounds = [["minimum", ">= "], ["exclusiveMinimum", "> "], ["maximum", "<= "], ["exclusiveMaximum", "< "],
                ["minLength", "length >= "], ["maxLength", "length <= "], ["minItems", "size >= "],
                ["maxItems", "size <= "], ["maxProperties", "size <= "]];

function typeText(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.contentSchema) return typeText(schema.contentSchema);
  if (schema.properties && schema.properties.data) return "events of (" + typeText(schema.properties.data) + ")";
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map(value => JSON.stringify(value)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map(typeText).join(" | ");
  let out = schema.type === undefined ? "any" : [].concat(schema.type).join(" | ");
  if (schema.items) out += " of (" + typeText(schema.items) + ")";
  if (schema.additionalProperties) out += " of (" + typeText(schema.additionalProperties) + ")";
  for (const [key, sign] of bounds) if (key in schema) out += ", " + sign + schema[key];
  return out;
}

function addMembers(parent, schema) {
  if (!schema.properties) {
    add(parent, "code", typeText(schema));
    return;
  }
  const table = add(parent, "table");
  const head = add(table, "tr");
  for (const title of ["Member", "Type", "Default", ""]) add(head, "th", title);
  for (const [name, member] of Object.entries(schema.properties)) {
    const row = add(table, "tr");
    const required = (schema.required || []).includes(name);
    add(add(row, "td"), "code", name + (required ? " *" : ""));
    add(add(row, "td"), "code", typeText(member));
    add(add(row, "td"), "code", "default" in member ? JSON.stringify(member.default) : "");
    add(row, "td", member.description || "");
  }
}

async function send(method, path, body, out) {
  const headers = {};
  const key = document.getElementById("key").value;
  if (key) headers.authorization = "Bearer " + key;
  if (body !== undefined) headers["content-type"] = "application/json";
  out.textContent = "...";
  try {
    const answer = await fetch(new URL(path.slice(1), base), {method, headers, body});
    out.textContent = answer.status + " " + answer.statusText + "\n\n";
    const reader = answer.body && answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part; reader && !(part = await reader.read()).done;) out.append(part.value);
  } catch (error) {
    out.append("\n" + error);
  }
}

function addForm(parent, method, path, operation) {
  const parameters = (operation.parameters || []).map(({name}) => {
    const input = add(add(parent, "label", name), "input");
    return [name, input];
  });
  const media = operation.requestBody && operation.requestBody.content["application/json"];
  const text = media && add(parent, "textarea");
  if (text) {
    text.rows = 8;
    text.value = JSON.stringify(media.example, null, 2);
    text.setAttribute("aria-label", "body of the request");
  }
  const button = add(add(parent, "p"), "button", "Send");
  const out = add(parent, "pre");
  out.hidden = true;
  button.onclick = () => {
    out.hidden = false;
    let whole = path;
    for (const [name, input] of parameters) whole = whole.replace("{" + name + "}", encodeURIComponent(input.value));
    send(method.toUpperCase(), whole, text ? text.value : undefined, out);
  };
}

function addOperation(parent, path, method, operation) {
  const box = add(parent, "details");
  const title = add(box, "summary");
  add(title, "span", method.toUpperCase()).className = "method";
  add(title, "code", path);
  add(title, "span", " " + operation.summary);
  const media = operation.requestBody && operation.requestBody.content["application/json"];
  if (media) add(add(box, "p", "Body: "), "code", typeText(media.schema));
  const table = add(box, "table");
  for (const [status, response] of Object.entries(operation.responses)) {
    const row = add(table, "tr");
    add(row, "td", status);
    add(row, "td", response.description);
    const types = Object.entries(response.content || {}).map(([type, {schema}]) => type + ": " + typeText(schema));
    add(add(row, "td"), "code", types.join("; "));
  }
  addForm(box, method, path, operation);
}

async function start() {
  const about = document.getElementById("about");
  const answer = await fetch(new URL("api-doc/openapi.json", base));
  const api = await answer.json();
  about.textContent = api.info.description + " Version " + api.info.version + ".";
  for (const tag of api.tags) {
    add(list, "h2", tag.name);
    add(list, "p", tag.description);
    for (const [path, methods] of Object.entries(api.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        if (operation.tags.includes(tag.name)) addOperation(list, path, method, operation);
      }
    }
  }
  add(list, "h2", "Documents");
  for (const [name, schema] of Object.entries(api.components.schemas)) {
    const box = add(list, "details");
    add(add(box, "summary"), "code", name);
    if (schema.description) add(box, "p", schema.description);
    addMembers(box, schema);
  }
}

start().catch(error => { document.getElementById("about").textContent = "The description cannot be read: " + error; });
</script>
</body>
</html>
)html";

}  // namespace coxswain::openapi
