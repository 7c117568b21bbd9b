/// Files that are compiled into the binary: the demo page, the status page and the API's description.
enum PageFiles {
    static let names: Set<String> = [
        "index.html", "app.js", "group.html", "group.js", "session.js", "style.css", "status.html", "status.js",
        "status.css",
    ]

    /// What the status page is made of: served without the demo as well, since it holds nothing and can do nothing without a token.
    static let ofStatus: Set<String> = ["status.html", "status.js", "status.css", "style.css", "session.js"]

    static func file(_ name: String) -> (bytes: [UInt8], contentType: String)? {
        switch name {
        case "index.html": (PackageResources.index_html, "text/html; charset=utf-8")
        case "app.js": (PackageResources.app_js, "text/javascript; charset=utf-8")
        case "group.html": (PackageResources.group_html, "text/html; charset=utf-8")
        case "group.js": (PackageResources.group_js, "text/javascript; charset=utf-8")
        case "session.js": (PackageResources.session_js, "text/javascript; charset=utf-8")
        case "style.css": (PackageResources.style_css, "text/css; charset=utf-8")
        case "status.html": (PackageResources.status_html, "text/html; charset=utf-8")
        case "status.js": (PackageResources.status_js, "text/javascript; charset=utf-8")
        case "status.css": (PackageResources.status_css, "text/css; charset=utf-8")
        default: nil
        }
    }

    static var openAPI: [UInt8] { PackageResources.openapi_json }
}
