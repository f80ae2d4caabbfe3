"use strict";

const element = (id) => document.getElementById(id);
const sections = [];

// set changes a text only if it is another, so that readers of the screen are not told twice.
function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function addClient(i) {
  const section = element("client").content.firstElementChild.cloneNode(true);
  section.id = `client-${i}`;
  for (const button of section.querySelectorAll("button")) {
    button.addEventListener("click", () => {
      window.story[button.dataset.act](i);
      show();
    });
  }
  element("clients").append(section);
  sections.push(section);
}

function showClient(section, client) {
  section.className = [client.Holds && "holds", client.Waits && "waits", client.Paused && "paused"].filter(Boolean).join(" ");
  set(section.querySelector("h2"), client.Name);
  set(section.querySelector(".text"), client.Text);
  set(section.querySelector(".sent"), client.OnTheWay ? `writes that have not arrived: ${client.OnTheWay}` : "");
  const button = (act) => section.querySelector(`[data-act=${act}]`);
  button("acquire").disabled = client.Holds || client.Waits || client.Paused;
  button("release").disabled = !(client.Holds || client.Waits) || client.Paused;
  set(button("release"), client.Waits ? "stop waiting" : "release");
  set(button("pause"), client.Paused ? "go on" : "pause");
}

// showLog adds the lines that are new; the newest is on top.
function showLog(lines) {
  const log = element("log");
  for (const line of lines.slice(log.children.length)) {
    const item = document.createElement("li");
    item.textContent = `${line.Seconds.toFixed(1).padStart(6)} s  ${line.Text}`;
    if (line.Text.includes("refused")) item.className = "refused";
    if (line.Text.includes("lost")) item.className = "lost";
    log.prepend(item);
  }
}

function show() {
  const state = JSON.parse(window.story.state());
  state.Clients.forEach((client, i) => {
    if (!sections[i]) addClient(i);
    showClient(sections[i], client);
  });
  set(element("holder"), state.Holder);
  set(element("waiting"), (state.Waiting || []).join(", ") || "nobody");
  set(element("value"), state.Value);
  showLog(state.Log || []);
}

async function main() {
  const go = new Go();
  const program = await WebAssembly.instantiateStreaming(fetch("demo.wasm"), go.importObject);
  go.run(program.instance);
  element("failover").addEventListener("click", () => {
    window.story.failOver();
    show();
  });
  show();
  setInterval(show, 100);
  element("loading").hidden = true;
  document.querySelector("main").hidden = false;
}

main().catch((err) => set(element("loading"), `The page could not be started: ${err}`));
