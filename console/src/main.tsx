import { render } from "preact";
import { App } from "./app";
import { cleanAddress } from "./router";
import "./style.css";

cleanAddress();
addEventListener("hashchange", cleanAddress);

render(<App />, document.getElementById("app")!);
