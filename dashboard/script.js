"use strict";
// Asks once a second for the part of the page that changes, while the page can be seen.
const rows = document.getElementById("rows");

async function refresh() {
  try {
    if (document.hidden) return;
    const answer = await fetch("rows", { cache: "no-store" });
    const text = await answer.text();
    if (!answer.headers.get("Content-Type")?.startsWith("text/html")) throw new Error(answer.status + " " + text);
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
