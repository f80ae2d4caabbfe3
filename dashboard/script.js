"use strict";
// Asks once a second for the part of the page that changes, while the page can be seen.
const rows = document.getElementById("rows");

async function refresh() {
  try {
    if (document.hidden) return;
    const answer = await fetch("rows", { cache: "no-store", redirect: "error", signal: AbortSignal.timeout(15000) });
    const text = await answer.text();
    const html = answer.headers.get("Content-Type")?.startsWith("text/html");
    if (!html || !text.includes('id="state"')) throw new Error(answer.status + " " + text.slice(0, 200)); // not from the dashboard
    rows.innerHTML = text;
    document.getElementById("state").classList.toggle("late", !answer.ok);
  } catch (error) {
    const state = document.getElementById("state");
    state.textContent = "No answer: " + error.message;
    state.classList.add("late");
  } finally {
    setTimeout(refresh, 1000);
  }
}

document.addEventListener("submit", (event) => {
  const row = event.target.closest("tr");
  const owner = row.children[3].textContent;
  if (!confirm("Evict " + owner + "?")) event.preventDefault();
});

setTimeout(refresh, 1000);
