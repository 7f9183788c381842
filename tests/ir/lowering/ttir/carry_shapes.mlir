// RUN: vk-opt '--apply-plan{tiles="b=1","g=1","o=16","y=4","x=8" chunks="c=16" lanes=x multiples="B=1","G=1","O=16","Y=4","X=8","C=16" distinct=true}' --lower-to-ttir %s | filecheck %s
// A sum with several axes on a side of the dot, which has them in another order, goes through both loops as the dot
// takes it. Its shape changes once, after them.

vk.kernel @convolution(%image: !vk.tensor<[B, G, Y, X, C], f32>, %weight: !vk.tensor<[G, O, C, R], f32>, %out: !vk.tensor<[B, G, O, Y, X], f32>) {
  %B = vk.size B
  vk.tile b < %B
  %G = vk.size G
  vk.tile g < %G
  %O = vk.size O
  vk.tile o < %O
  %Y = vk.size Y
  vk.tile y < %Y
  %X = vk.size X
  vk.tile x < %X
  %C = vk.size C
  vk.whole c < %C
  %zero = arith.constant 0.0 : f32
  %init = vk.broadcast %zero : f32 -> tensor<?x?x?x?x?xf32, #vk.axes<b, g, o, y, x>>
  %first = arith.constant 0 : i64
  %R = vk.size R
  %total = vk.range %r = %first to %R carrying (%sum = %init : tensor<?x?x?x?x?xf32, #vk.axes<b, g, o, y, x>>) {
    %w = vk.load %weight[g, o, c, %r] : !vk.tensor<[G, O, C, R], f32> -> tensor<?x?x?xf32, #vk.axes<g, o, c>>
    %p = vk.load %image[b, g, y, x, c] : !vk.tensor<[B, G, Y, X, C], f32> -> tensor<?x?x?x?x?xf32, #vk.axes<b, g, y, x, c>>
    %turned = vk.broadcast %sum : tensor<?x?x?x?x?xf32, #vk.axes<b, g, o, y, x>> -> tensor<?x?x?x?x?xf32, #vk.axes<g, o, b, y, x>>
    %next = vk.dot %w, %p, %turned along c precision ieee : tensor<?x?x?xf32, #vk.axes<g, o, c>>, tensor<?x?x?x?x?xf32, #vk.axes<b, g, y, x, c>>, tensor<?x?x?x?x?xf32, #vk.axes<g, o, b, y, x>>
    %back = vk.broadcast %next : tensor<?x?x?x?x?xf32, #vk.axes<g, o, b, y, x>> -> tensor<?x?x?x?x?xf32, #vk.axes<b, g, o, y, x>>
    vk.yield %back : tensor<?x?x?x?x?xf32, #vk.axes<b, g, o, y, x>>
  }
  vk.store %total in %out[b, g, o, y, x] : !vk.tensor<[B, G, O, Y, X], f32> <- tensor<?x?x?x?x?xf32, #vk.axes<b, g, o, y, x>>
}

// CHECK:      scf.for %r = %{{.*}} iter_args([[OUTER:%[a-z0-9_]+]] = %{{.*}}) -> (tensor<16x32xf32>) : i64 {
// CHECK-NOT:    tt.trans
// CHECK:        scf.for %c0 = %{{.*}} iter_args([[SUM:%[a-z0-9_]+]] = [[OUTER]]) -> (tensor<16x32xf32>) : i64 {
// CHECK-NOT:      "tt.reshape"([[SUM]])
// CHECK:          [[NEXT:%[a-z0-9_]+]] = "tt.dot"(%{{.*}}, %{{.*}}, [[SUM]])
// CHECK-NEXT:     scf.yield [[NEXT]]
// CHECK-NEXT:   }
// CHECK-NEXT:   scf.yield
// CHECK-NEXT: }
// CHECK-NEXT: "tt.reshape"(%{{.*}}) : (tensor<16x32xf32>) -> tensor<1x16x1x4x8xf32>
// CHECK-NEXT: "tt.trans"
