import CMediaCrypto
import RelayCore
import Testing

@Suite("SRTP self-test")
struct SRTPSelfTestTests {
    @Test("the self-test at start passes on this host")
    func passes() throws { try SRTPSelfTest.run() }

    @Test("OpenSSL's back end is always there")
    func openSSL() { #expect(SRTPCipher.Backend.openSSL.isAvailable) }

    #if arch(x86_64)
        @Test("ipsec-mb is found on x86-64, so that the fast back end is what the tests prove")
        func ipsecMB() { #expect(SRTPCipher.Backend.ipsecMB.isAvailable) }
    #endif

    @Test("a back end that does not exist is not available")
    func unknownBackend() {
        #expect(mc_backend_available(0) == 0)
        #expect(mc_backend_available(3) == 0)
        #expect(mc_backend_available(-1) == 0)
    }

    @Test("the chosen back end has a name")
    func name() {
        #expect(["ipsec-mb", "openssl-evp"].contains(String(cString: mc_backend_name())))
    }
}
