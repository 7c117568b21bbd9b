/// Files that are compiled into the binary: the demo page and the API's description.
enum PageFiles {
    static let names: Set<String> = ["index.html", "app.js", "group.html", "group.js", "session.js", "style.css"]

    static func file(_ name: String) -> (bytes: [UInt8], contentType: String)? {
        switch name {
        case "index.html": (PackageResources.index_html, "text/html; charset=utf-8")
        case "app.js": (PackageResources.app_js, "text/javascript; charset=utf-8")
        case "group.html": (PackageResources.group_html, "text/html; charset=utf-8")
        case "group.js": (PackageResources.group_js, "text/javascript; charset=utf-8")
        case "session.js": (PackageResources.session_js, "text/javascript; charset=utf-8")
        case "style.css": (PackageResources.style_css, "text/css; charset=utf-8")
        default: nil
        }
    }

    static var openAPI: [UInt8] { PackageResources.openapi_json }
}
